//! A server that has one of everything.

#![allow(deprecated)] // the suite tests what the newest revision leaves out, too

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::CallToolRequestParams;
use rmcp::model::CallToolResponse;
use rmcp::model::CallToolResult;
use rmcp::model::CompleteRequestParams;
use rmcp::model::CompleteResult;
use rmcp::model::ContentBlock;
use rmcp::model::CustomNotification;
use rmcp::model::CustomRequest;
use rmcp::model::GetPromptRequestParams;
use rmcp::model::GetPromptResponse;
use rmcp::model::GetPromptResult;
use rmcp::model::Implementation;
use rmcp::model::ListPromptsResult;
use rmcp::model::ListResourceTemplatesResult;
use rmcp::model::ListResourcesResult;
use rmcp::model::ListToolsResult;
use rmcp::model::PaginatedRequestParams;
use rmcp::model::ProgressNotificationParam;
use rmcp::model::ReadResourceRequestParams;
use rmcp::model::ReadResourceResponse;
use rmcp::model::ReadResourceResult;
use rmcp::model::ServerCapabilities;
use rmcp::model::ServerConfig;
use rmcp::model::ServerNotification;
use rmcp::model::ServerRequest;
use rmcp::model::SetLevelRequestParams;
use rmcp::model::SubscribeRequestParams;
use rmcp::model::UnsubscribeRequestParams;
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::json;

use super::data;

#[derive(Clone)]
pub(super) struct Everything;

type Answer<T> = Result<T, ErrorData>;

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("data of ours")
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

/// Asks the client something and gives its answer as it came.
async fn ask(context: &RequestContext<RoleServer>, method: &str, params: Value) -> Answer<Value> {
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    let result = context.peer.send_request(request).await;
    let result = result.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(serde_json::to_value(result).expect("an answer"))
}

async fn log(context: &RequestContext<RoleServer>, message: &str) {
    let params = json!({"level": "info", "logger": "fixture", "data": message});
    let notification =
        ServerNotification::CustomNotification(CustomNotification::new("notifications/message", Some(params)));
    context.peer.send_notification(notification).await.ok();
}

/// The suite wants to see several notifications one after the other.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities: ServerCapabilities = typed(json!({
            "tools": {}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}, "completions": {},
        }));
        ServerConfig::new(capabilities).with_server_info(Implementation::new("hostel-fixture", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListToolsResult> {
        Ok(ListToolsResult::with_all_items(typed(data::tools())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let tool = &*request.name;
        if let Some(content) = data::content(tool) {
            return Ok(CallToolResult::success(typed(content)).into());
        }
        Ok(match tool {
            "test_error_handling" => {
                CallToolResult::error(vec![ContentBlock::text("This tool intentionally returns an error for testing")])
            }
            "test_tool_with_logging" => {
                for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    log(&context, message).await;
                    pause().await;
                }
                text("Logged.")
            }
            "test_tool_with_progress" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for progress in [0.0, 50.0, 100.0] {
                        let told = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
                        context.peer.notify_progress(told).await.ok();
                        pause().await;
                    }
                }
                text("Progressed.")
            }
            "test_sampling" => {
                let message = json!({"role": "user", "content": {"type": "text", "text": arguments["prompt"]}});
                let answer =
                    ask(&context, "sampling/createMessage", json!({"messages": [message], "maxTokens": 100})).await?;
                text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
            }
            "test_elicitation" | "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
                let message = arguments["message"].as_str().unwrap_or("Please answer").to_owned();
                let params = json!({"message": message, "requestedSchema": data::form(tool)});
                let answer = ask(&context, "elicitation/create", params).await?;
                let lead = if tool == "test_elicitation" { "User response" } else { "Elicitation completed" };
                text(format!(
                    "{lead}: action={}, content={}",
                    answer["action"].as_str().unwrap_or_default(),
                    answer["content"]
                ))
            }
            _ => return Err(ErrorData::invalid_params("tool not found", None)),
        }
        .into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourcesResult> {
        Ok(ListResourcesResult::with_all_items(typed(data::resources())))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourceTemplatesResult> {
        Ok(ListResourceTemplatesResult::with_all_items(typed(json!([
            {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"},
        ]))))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<ReadResourceResponse> {
        let found = data::resource(&request.uri);
        let found = found.ok_or_else(|| ErrorData::resource_not_found("no such resource", None))?;
        Ok(ReadResourceResult::new(typed(found)).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListPromptsResult> {
        Ok(ListPromptsResult::with_all_items(typed(data::prompts())))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<GetPromptResponse> {
        let arguments = serde_json::to_value(request.arguments).expect("arguments");
        let found = data::prompt(&request.name, &arguments);
        let found = found.ok_or_else(|| ErrorData::invalid_params("no such prompt", None))?;
        Ok(GetPromptResult::new(typed(found)).into())
    }

    async fn complete(&self, _: CompleteRequestParams, _: RequestContext<RoleServer>) -> Answer<CompleteResult> {
        Ok(typed(json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}})))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        Ok(())
    }
}
