//! What the attributes expand to.

const RING: &str = "fn ring(p: &Program) {
    for rank in p.ranks() {
        let next = (rank.id() + 1) % p.num_ranks();
        let send = rank.memory_channel(next);
        let receive = rank.memory_channel((rank.id() + p.num_ranks() - 1) % p.num_ranks());
        receive.signal(0).relaxed();
        send.wait(0).relaxed().sync(BlockSync::After);
        send.put(p.rank(next).output().chunk(0), rank.input().chunk(0), 0);
        send.signal(0).sync(BlockSync::Before);
        receive.wait(0).sync(BlockSync::After);
    }
}";

fn collective(args: &str, item: &str) -> String {
    mscclpp_eval::collective(args.parse().expect("tokens"), item.parse().expect("tokens")).to_string()
}

/// The text of tokens, as `collective` gives it.
fn tokens(text: &str) -> String {
    text.parse::<proc_macro2::TokenStream>().expect("tokens").to_string()
}

#[test]
fn the_same_tokens_give_the_same_expansion() {
    let args: proc_macro2::TokenStream = "SendRecv, ranks = [3, 4], tags(b = 2, a = 1)".parse().expect("tokens");
    let item: proc_macro2::TokenStream = RING.parse().expect("tokens");
    let expand = || mscclpp_eval::collective(args.clone(), item.clone()).to_string();
    let first = expand();
    assert!(!first.contains("compile_error"), "{first}");
    for _ in 0..3 {
        assert_eq!(expand(), first);
    }
}

#[test]
fn the_function_stays_as_it_is_with_errors_and_without() {
    for args in ["SendRecv, ranks = 3", "SendRecv, ranks = 0", "Nothing", "", "ranks ranks", "SendRecv, ranks = 1"] {
        let expansion = collective(args, RING);
        assert!(expansion.contains(&tokens(RING)), "{args}: {expansion}");
        assert!(expansion.contains("mod ring"), "{args}: {expansion}");
        syn::parse_file(&expansion).unwrap_or_else(|error| panic!("{args}: {error}\n{expansion}"));
    }
}

#[test]
fn after_errors_there_is_a_module_without_plans() {
    let expansion = collective("SendRecv, ranks = 1", RING);
    assert!(
        expansion.contains("compile_error") && expansion.contains("static PLANS : [p :: Plan ; 0usize]"),
        "{expansion}"
    );
}

#[test]
fn several_errors_are_reported_at_once() {
    let item = "fn f(p: &Program) { let x = 1.5; println!(\"x\"); OUTSIDE; async {}; }";
    let expansion = collective("AllGather, ranks = 2, nonsense = 1", item);
    assert_eq!(expansion.matches("compile_error").count(), 5, "{expansion}");
}

#[test]
fn errors_of_one_code_are_counted_after_five() {
    let item = format!("fn f(p: &Program) {{ {} }}", "let _ = 1.5;".repeat(9));
    let expansion = collective("AllGather, ranks = 2", &item);
    assert_eq!(expansion.matches("compile_error").count(), 5, "{expansion}");
    assert!(expansion.contains("and 4 more of this kind"), "{expansion}");
}

#[test]
fn only_what_is_used_of_a_module_is_evaluated() {
    let module = format!(
        "mod m {{ const N: f64 = 1.5; fn unused() {{ println!(\"{{}}\", N); }} #[collective(SendRecv, ranks = 3)] {RING} }}"
    );
    let expansion = mscclpp_eval::collectives(Default::default(), module.parse().expect("tokens")).to_string();
    assert!(!expansion.contains("compile_error") && expansion.contains("mod ring"), "{expansion}");
    assert!(!expansion.contains("# [collective"), "{expansion}");
}

#[test]
fn arguments_in_lists_are_given_once() {
    for args in ["params(n = 1, n = 2)", "tags(nvls = 1, nvls = 2)", "tags = [\"nvls\", \"nvls\"]", "allow(race, race)"]
    {
        let expansion = collective(&format!("SendRecv, ranks = 1, {args}"), "fn f(p: &Program, n: u8) {}");
        assert!(expansion.contains("is given twice"), "{args}: {expansion}");
    }
    assert!(collective("SendRecv, ranks = 1, name = \"\"", "fn f(p: &Program) {}").contains("not empty"));
}

#[test]
fn ranks_of_a_typing_error_are_refused() {
    let expansion = collective("SendRecv, ranks = 4000000000", "fn f(p: &Program) { for _ in p.ranks() { break; } }");
    assert!(expansion.contains("at most 65536 ranks"), "{expansion}");
}

#[test]
fn misplaced_attributes_are_refused() {
    assert!(collective("AllGather, ranks = 2", "struct S;").contains("belongs on a function"));
    let unfinished = collective("AllGather, ranks = 2", "pub fn f(p: &Program) { p. }");
    assert!(unfinished.contains("the function cannot be read") && !unfinished.contains("belongs"), "{unfinished}");
    let module = |args: &str, item: &str| {
        mscclpp_eval::collectives(args.parse().expect("tokens"), item.parse().expect("tokens")).to_string()
    };
    assert!(module("", "fn f() {}").contains("belongs on a module"));
    assert!(module("", "mod m;").contains("in the same file"));
    assert!(module("ranks = 2", "mod m {}").contains("takes no arguments"));
}
