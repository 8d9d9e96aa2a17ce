//! The page and its parts, as they were compiled in.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) media_type: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// The file at a path below `/console`.
pub(crate) fn file(path: &str) -> Option<File> {
    let (media_type, text) = match path {
        "" | "/" => (HTML, include_str!("page/index.html")),
        "/console.css" => (CSS, include_str!("page/console.css")),
        "/main.js" => (JS, include_str!("page/main.js")),
        "/dom.js" => (JS, include_str!("page/dom.js")),
        "/format.js" => (JS, include_str!("page/format.js")),
        "/server.js" => (JS, include_str!("page/server.js")),
        "/parts.js" => (JS, include_str!("page/parts.js")),
        "/history.js" => (JS, include_str!("page/history.js")),
        "/filter.js" => (JS, include_str!("page/filter.js")),
        "/overview.js" => (JS, include_str!("page/overview.js")),
        "/lists.js" => (JS, include_str!("page/lists.js")),
        "/locks.js" => (JS, include_str!("page/locks.js")),
        "/graph.js" => (JS, include_str!("page/graph.js")),
        "/durable.js" => (JS, include_str!("page/durable.js")),
        "/nodes.js" => (JS, include_str!("page/nodes.js")),
        "/functions.js" => (JS, include_str!("page/functions.js")),
        "/plan.js" => (JS, include_str!("page/plan.js")),
        "/heatmap.js" => (JS, include_str!("page/heatmap.js")),
        "/details.js" => (JS, include_str!("page/details.js")),
        "/waterfall.js" => (JS, include_str!("page/waterfall.js")),
        _ => return None,
    };
    Some(File { media_type, text })
}
