//! Elements with attributes, as far as algorithms have them: text and document types are mistakes.

use roxmltree::{Document, Node, NodeType};

use super::Mistake;

/// Maximum depth of elements: algorithms have four levels.
const MAX_DEPTH: usize = 8;

/// An element.
#[derive(Debug)]
pub(super) struct Element {
    /// Its name.
    pub(super) name: String,
    /// Its line, from 1.
    pub(super) line: u32,
    /// Its attributes, in order.
    pub(super) attributes: Vec<(String, String)>,
    /// The elements in it.
    pub(super) children: Vec<Self>,
}

/// Reads the one element of a text.
///
/// # Errors
/// The first mistake.
pub(super) fn parse(text: &str) -> Result<Element, Mistake> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::parse(text).map_err(|error| mistake(error.pos().row, error.to_string()))?;
    element(document.root_element(), 1)
}

fn mistake(line: u32, reason: String) -> Mistake {
    Mistake { line, element: String::new(), reason }
}

fn element(node: Node<'_, '_>, depth: usize) -> Result<Element, Mistake> {
    let line_of = |node: Node<'_, '_>| node.document().text_pos_at(node.range().start).row;
    let line = line_of(node);
    if depth > MAX_DEPTH {
        return Err(mistake(line, format!("expected at most {MAX_DEPTH} levels of elements, found more")));
    }
    let mut children = Vec::new();
    for child in node.children() {
        match child.node_type() {
            NodeType::Element => children.push(element(child, depth + 1)?),
            NodeType::Text => {
                if let Some(text) = child.text().map(str::trim).filter(|text| !text.is_empty()) {
                    return Err(mistake(line_of(child), format!("expected an element, found the text {text:?}")));
                }
            }
            NodeType::Root | NodeType::Comment | NodeType::PI => {}
        }
    }
    let attributes = node.attributes().map(|attribute| (attribute.name().to_owned(), attribute.value().to_owned()));
    Ok(Element { name: node.tag_name().name().to_owned(), line, attributes: attributes.collect(), children })
}
