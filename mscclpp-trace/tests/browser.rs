//! The page in a browser: Chromium, without a window, where it is installed.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use mscclpp_trace::{Arrow, Cell, Change, Class, Content, Lane, Memory, Slice, Trace, Unit};

/// Two ranks: a put, the wait for its signal, and a copy after it.
fn trace() -> Trace {
    let content = |ranks: &[u32], text: &str| Content { ranks: ranks.to_vec(), whole: true, text: text.into() };
    Trace {
        title: "two ranks".into(),
        unit: Unit::Microseconds,
        lanes: (0..2).map(|rank| Lane::of_rank(rank, 0, "thread block 0".into())).collect(),
        slices: vec![
            Slice::new(0, (0.0, 2.0), Class::Copy, "put"),
            Slice::new(1, (0.0, 2.5), Class::Wait, "wait"),
            Slice::new(1, (2.5, 4.0), Class::Reduce, "reduce"),
        ],
        arrows: vec![Arrow { from: 0, to: 1, what: "signal", critical: false }],
        memory: Some(Memory {
            num_ranks: 2,
            cells: vec![Cell { buffer: "output", rank: 1, chunk: 0 }],
            contents: vec![
                content(&[], "nothing yet"),
                content(&[0], "input chunk 0 of rank 0"),
                content(&[0, 1], "sum"),
            ],
            initial: vec![0],
            changes: vec![Change { slice: 0, cell: 0, content: 1 }, Change { slice: 2, cell: 0, content: 2 }],
        }),
        ..Trace::default()
    }
}

/// What the browser does, and what it must see after each step.
const STEPS: &str = r#"
const seen = [];
const note = (what, text) => seen.push(what + ": " + text.replaceAll("\n", " | "));
const key = (key, shiftKey) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
const details = () => document.getElementById("details").textContent;
const cell = () => document.querySelector("[data-c]");
note("end", cell().textContent);
document.getElementById("op1").dispatchEvent(new MouseEvent("click", { bubbles: true }));
note("click", details());
note("focus", document.activeElement.id);
note("time", document.getElementById("at").textContent + ", " + cell().textContent);
key("Enter");
note("source", document.activeElement.id);
key("Enter", true);
note("waiter", document.activeElement.id);
key("ArrowRight");
note("next", document.activeElement.id);
key("ArrowUp");
note("above", document.activeElement.id);
note("tab stops", String(document.querySelectorAll(".op[tabindex='0']").length));
const slider = document.getElementById("now");
slider.value = 0;
slider.dispatchEvent(new Event("input"));
note("start", cell().textContent + "," + cell().title + "," + slider.getAttribute("aria-valuetext"));
const pre = document.createElement("pre");
pre.id = "seen";
pre.textContent = seen.join("\n");
document.body.append(pre);
"#;

const EXPECTED: &str = "\
end: 0 1
click: rank 1, thread block 0: wait, 0.00 to 2.50 us | waits for signal of rank 0, thread block 0, put, 0.00 to 2.00 us
focus: op1
time: 2.50 us, 0
source: op0
waiter: op1
next: op2
above: op0
tab stops: 1
start: ,output chunk 0 of rank 1: nothing yet,0.00 us";

/// Clicks through the page.
fn page_is_usable_by_pointer_and_keys(browser: &str) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("page.html");
    std::fs::write(&file, trace().page().replace("</body>", &format!("<script>{STEPS}</script></body>")))?;
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    let output = command.arg(format!("--user-data-dir={}", directory.path().display())).arg(&file).output()?;
    let page = String::from_utf8_lossy(&output.stdout);
    let seen = page.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    match seen {
        Some(seen) if seen == EXPECTED => Ok(()),
        Some(seen) => Err(format!("found\n{seen}\nexpected\n{EXPECTED}").into()),
        None => Err(format!("the script failed: {page}{}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn main() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<_> = std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    let browser = names.into_iter().find(|name| folders.iter().any(|folder| Path::new(folder).join(name).is_file()));
    let test = Trial::test("page_is_usable_by_pointer_and_keys", move || {
        page_is_usable_by_pointer_and_keys(browser.unwrap_or_default())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test.with_ignored_flag(browser.is_none())]).exit();
}
