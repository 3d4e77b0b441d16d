//! The pictures of README.md and the book: the plan of the first example, and how calls compare with other libraries.
//!
//! `MSCCLPP_BLESS=1 cargo test --workspace --test repository pictures` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use mscclpp::prelude::*;
use mscclpp_core::plan::graph::Graph;

/// Every rank puts its chunk into every other rank's output.
#[collective(AllGather, ranks = 2, in_place)]
fn simple_allgather(p: &Program) {
    for rank in p.ranks() {
        let mine = rank.output().chunk(rank.id());
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed(); // every peer is ready to receive
        for channel in &channels {
            channel.put(channel.peer().output().chunk(rank.id()), mine, 0);
        }
        channels.handshake(0); // the data of all has arrived
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Checks that a picture is that of the folder, or writes it if `MSCCLPP_BLESS` is set.
fn check(name: &str, expected: &str) {
    let path = root().join("docs/pictures").join(name);
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        fs::write(&path, expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/pictures/{name} is stale; set MSCCLPP_BLESS=1 and look at the change");
}

#[test]
fn plan_picture_is_that_of_the_first_example() {
    let (_, function) = include_str!("pictures.rs").split_once("/// Every rank puts").expect("the function is above");
    let (function, _) = function.split_once("\n}\n").expect("it ends");
    for file in ["README.md", "examples/quickstart.rs", "docs/learn/first-collective.md"] {
        assert!(read(file).contains(function), "{file} has another example");
    }
    check("simple_allgather.svg", &Graph::plan(&simple_allgather::plan(2).tree()).to_string());
}

/// One line of the chart: its name, its color, and by size in bytes how many times as long the other program takes.
struct Series {
    name: &'static str,
    color: &'static str,
    points: Vec<(f64, f64)>,
}

/// The cells of the rows of the table with a header.
fn table<'a>(page: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(header));
    let rows: Vec<Vec<_>> = lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 2, "docs/measured.md has no table `{header}`");
    rows
}

/// The size in bytes of a text such as `64 KiB`.
fn bytes(size: &str) -> Option<f64> {
    let (number, unit) = size.split_once(' ')?;
    let unit = ["KiB", "MiB", "GiB"].iter().position(|name| *name == unit)?;
    Some(number.parse::<f64>().ok()? * 1024_f64.powi(unit as i32 + 1))
}

/// The first number of a cell, such as 4.4 of `**4.4**, 5.3 (8.4, 10)`.
fn number(cell: &str) -> f64 {
    let first = cell.trim_matches(['*', ' ']).split([',', '*']).next().expect("a part");
    first.replace(' ', "").parse().unwrap_or_else(|_| panic!("`{cell}` does not begin with a number"))
}

fn series(page: &str) -> Vec<Series> {
    let gloo = table(page, "| bytes | last |");
    let gloo = gloo.iter().filter_map(|row| Some((bytes(row[0])?, number(row[1])))).collect();
    let processes = table(page, "| two processes | 1 KiB |");
    let row = processes.iter().find(|row| row[0] == "all-reduce, Open MPI").expect("a row for Open MPI");
    let mpi = processes[0].iter().zip(row).filter_map(|(size, cell)| Some((bytes(size)?, number(cell)))).collect();
    // Of several plans for a size, the fastest of each side.
    let kernels = table(page, "| plan | bytes | hand-written |");
    let ratio = |column: usize| -> Vec<(f64, f64)> {
        let rows: Vec<_> = kernels.iter().filter_map(|row| Some((bytes(row[1])?, row))).collect();
        let best = |rows: &[(f64, &Vec<&str>)], column: usize| {
            rows.iter().map(|(_, row)| number(row[column])).fold(f64::INFINITY, f64::min)
        };
        rows.chunk_by(|a, b| a.0 == b.0).map(|rows| (rows[0].0, best(rows, 2) / best(rows, column))).collect()
    };
    vec![
        Series { name: "gloo, PyTorch", color: "#009e73", points: gloo },
        Series { name: "Open MPI", color: "#0072b2", points: mpi },
        Series { name: "hand-written CUDA, specialized kernel", color: "#d55e00", points: ratio(4) },
        Series { name: "hand-written CUDA, interpreted", color: "#cc79a7", points: ratio(3) },
    ]
}

/// Edges of the plot, in pixels.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 556.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 346.0;

/// Place of a size from 1 KiB to 256 MiB on a logarithmic axis.
fn x(bytes: f64) -> f64 {
    LEFT + (bytes.log2() - 10.0) / 18.0 * (RIGHT - LEFT)
}

/// Place of a ratio from 1/8 to 64 on a logarithmic axis.
fn y(ratio: f64) -> f64 {
    BOTTOM - (ratio.log2() + 3.0) / 9.0 * (BOTTOM - TOP)
}

fn text(svg: &mut String, x: f64, y: f64, attributes: &str, text: &str) {
    _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>");
}

fn chart(page: &str) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"840\" height=\"440\" viewBox=\"0 0 840 440\" \
         font-family=\"system-ui, DejaVu Sans, Arial, sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>All-reduce beside Open MPI, gloo and hand-written CUDA</title>\n\
         <rect width=\"840\" height=\"440\" fill=\"#ffffff\"/>\n",
    );
    text(
        &mut svg,
        16.0,
        26.0,
        "font-size=\"16\" font-weight=\"600\"",
        "All-reduce: time of the others by that of mscclpp",
    );
    for ratio in [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
        let (at, color) = (y(ratio), if ratio == 1.0 { "#333333" } else { "#dddddd" });
        _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"{color}\"/>");
        let label = if ratio < 1.0 { format!("1/{}", 1.0 / ratio) } else { ratio.to_string() };
        text(&mut svg, LEFT - 8.0, at + 4.0, "text-anchor=\"end\"", &label);
    }
    for size in ["1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB"] {
        let at = x(bytes(size).expect("a size"));
        _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{BOTTOM}\" stroke=\"#eeeeee\"/>");
        text(&mut svg, at, BOTTOM + 18.0, "text-anchor=\"middle\"", size);
    }
    text(&mut svg, RIGHT + 10.0, y(1.0) - 6.0, "fill=\"#555555\"", "above 1: mscclpp is faster");
    text(&mut svg, RIGHT + 10.0, y(1.0) + 14.0, "fill=\"#555555\"", "below 1: the other is faster");
    for (index, Series { name, color, points }) in series(page).into_iter().enumerate() {
        let path: Vec<_> = points.iter().map(|(bytes, ratio)| format!("{:.1} {:.1}", x(*bytes), y(*ratio))).collect();
        _ = writeln!(svg, "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\"/>", path.join("L"));
        for (bytes, ratio) in &points {
            let (x, y) = (x(*bytes), y(*ratio));
            let tooltip = format!("{name}: {ratio:.2} at {} KiB", bytes / 1024.0);
            _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"><title>{tooltip}</title></circle>"
            );
        }
        let at = TOP + 8.0 + 20.0 * index as f64;
        _ = writeln!(svg, "<path d=\"M{} {at}h18\" stroke=\"{color}\" stroke-width=\"2.5\"/>", RIGHT + 10.0);
        text(&mut svg, RIGHT + 34.0, at + 4.0, "", name);
    }
    // The caption is that of the page, one sentence a line.
    let caption = page.split('*').find(|text| text.starts_with("Two processes on")).expect("a caption");
    let caption = caption.split_whitespace().collect::<Vec<_>>().join(" ");
    for (index, sentence) in caption.split_inclusive(". ").enumerate() {
        text(&mut svg, 16.0, BOTTOM + 50.0 + 18.0 * index as f64, "fill=\"#555555\"", sentence.trim_end());
    }
    svg + "</svg>\n"
}

#[test]
fn chart_is_that_of_the_measured_tables() {
    check("speed.svg", &chart(&read("docs/measured.md")));
}
