//! The tools, as the protocol lists them.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_executor::ToolInfo;
use asyncsteps_futoin::openapi::tool_schemas;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

use super::Mcp;
use crate::http::end_point::EndPoint;

/// The tools by name, and of how many interfaces they are: interfaces are added while requests are served.
#[derive(Default)]
pub(super) struct Listed {
    hosted: usize,
    tools: Tools,
}

pub(super) type Tools = Arc<BTreeMap<String, Arc<ListedTool>>>;

/// A function as a tool.
pub(super) struct ListedTool {
    pub(super) info: ToolInfo,
    pub(super) tool: Tool,
}

impl Mcp {
    /// The tools that are hosted now.
    pub(super) fn tools(&self, end_point: &EndPoint) -> Tools {
        let hosted = end_point.executor.definitions().len();
        let mut listed = self.listed.lock();
        if listed.hosted != hosted {
            let tools = end_point.executor.tools().into_iter();
            let tools = tools.filter_map(|info| end_point.listed(info));
            let tools = tools.map(|tool| (tool.tool.name.to_string(), Arc::new(tool)));
            *listed = Listed { hosted, tools: Arc::new(tools.collect()) };
        }
        Arc::clone(&listed.tools)
    }
}

impl EndPoint {
    fn listed(&self, info: ToolInfo) -> Option<ListedTool> {
        let name = info.function.func().to_owned();
        let (input, output) = tool_schemas(&info.definition, info.definition.function(&name)?);
        let (Value::Object(input), output) = (input, output) else { return None };
        let mut tool = Tool::new(name, info.what.to_string(), input);
        if let Some(Value::Object(output)) = output {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        // the same functions are safe for links and images
        if self.get_calls.as_ref().is_some_and(|is_safe| is_safe(&info.function)) {
            tool = tool.with_annotations(ToolAnnotations::new().read_only(true));
        }
        Some(ListedTool { info, tool })
    }
}
