//! The service behind the protocol's server: it lists tools, and passes calls to the arbiter of their connection.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::{mpsc, oneshot};

use super::call::ToolCall;
use super::tools::Tools;

/// Serves one message.
#[derive(Clone)]
pub(super) struct ToolServer {
    pub(super) tools: Tools,
    pub(super) about: Implementation,
    pub(super) calls: mpsc::Sender<ToolCall>,
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let offered = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(offered).with_server_info(self.about.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.values().map(|tool| tool.tool.clone());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        CallToolRequestParams { name, arguments, .. }: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.get(&*name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None));
        };
        // from this version on, the end of the stream is what `notifications/cancelled` was
        let version = context.protocol_version();
        let ends_with_stream = version.is_some_and(|it| it >= ProtocolVersion::V_2026_07_28);
        let token = context.meta.get_progress_token();
        let progress = token.map(|token| (context.peer.clone(), token));
        let (answer, answered) = oneshot::channel();
        let call = ToolCall {
            tool: Arc::clone(tool),
            arguments: arguments.unwrap_or_default(),
            progress,
            ends_with_stream,
            answer,
        };
        let cancelled = || ErrorData::internal_error("The call was cancelled", None);
        self.calls.send(call).await.map_err(|_| cancelled())?;
        tokio::select! {
            answered = answered => answered.map(Into::into).map_err(|_| cancelled()),
            () = context.ct.cancelled() => Err(cancelled()),
        }
    }
}
