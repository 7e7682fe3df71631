import { Type } from "typebox";
import { operation } from "../operation.ts";
import { freeObject } from "../schema.ts";

/** The tools for coding agents. Messages and responses are those of the Model Context Protocol, not of this API. */
export const mcpOperations = {
  callMcp: operation("callMcp", {
    operationId: "call_mcp",
    tag: "MCP",
    summary: "Send one message of the Model Context Protocol, without a session (streamable HTTP)",
    query: Type.Object({
      read_only: Type.Optional(Type.Boolean({ description: "Offer only the tools that change nothing." })),
    }),
    body: freeObject("JSON-RPC 2.0."),
    response: { status: 200, schema: Type.Unknown() },
    role: "reader",
    audience: "tools",
  }),
};
