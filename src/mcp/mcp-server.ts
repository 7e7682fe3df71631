import { fromJsonSchema, McpServer } from "@modelcontextprotocol/server";
import { ApiFailure } from "../client/client.ts";
import { changingTools } from "./changing-tools.ts";
import { readingTools } from "./reading-tools.ts";
import type { ToolContext, ToolSpec } from "./tool.ts";

export interface McpOptions extends ToolContext {
  version: string;
  /** Offers only tools that change nothing. */
  isReadOnly: boolean;
}

const instructions =
  "Pierhead builds and runs agent servers. Deploy with deploy, then call wait_for_deployment until it is finished. " +
  "When a rollout fails, read the returned build log, or read_logs and why, repair the source or set_variables, and deploy again. " +
  "The previous revision goes on serving while a new one fails.";

/** Creates an MCP server whose tools call the API with one caller's key (decision 0059). */
export function createMcpServer(options: McpOptions): McpServer {
  const server = new McpServer({ name: "pierhead", version: options.version }, { instructions });
  const tools = options.isReadOnly ? readingTools : [...readingTools, ...changingTools];
  for (const spec of tools) {
    const config = {
      title: spec.title,
      description: spec.description,
      inputSchema: fromJsonSchema({ ...spec.input, additionalProperties: false }),
      annotations: {
        title: spec.title,
        readOnlyHint: spec.effect === "reads",
        destructiveHint: spec.effect === "destroys",
        openWorldHint: false,
      },
    };
    server.registerTool(spec.name, config, (args: unknown) => answer(spec, options, args));
  }
  return server;
}

/** Returns the result as JSON text, or a refusal that the model can act on. */
async function answer(spec: ToolSpec, context: ToolContext, args: unknown) {
  try {
    return textOf(JSON.stringify(await spec.run(context, args), null, 2));
  } catch (error) {
    context.signal.throwIfAborted();
    return { ...textOf(reasonOf(error)), isError: true };
  }
}

const textOf = (text: string) => ({ content: [{ type: "text" as const, text }] });

function reasonOf(error: unknown): string {
  if (error instanceof ApiFailure) {
    const { status, detail, requestId } = error;
    const hint = status === 403 ? " The key lacks permission for this." : "";
    return `The server refused this (${status}): ${detail}${hint}${requestId === null ? "" : ` (request id ${requestId})`}`;
  }
  return error instanceof Error ? error.message : String(error);
}
