import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { callsOf } from "../../src/cli/deployments/calls-of.ts";

/** Serves an agent on a path, as the gateway does. */
async function serve(listener: RequestListener) {
  const server = createServer((request, response) => {
    request.url = request.url?.replace(/^\/d\/agent/, "") ?? "";
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/d/agent`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function suggested(listener: RequestListener, engine: "own" | "memory" | null = "own") {
  await using agent = await serve(listener);
  const calls = await callsOf({ name: "agent", url: agent.url }, { engine }, new AbortController().signal);
  return calls.map((line) => line.replaceAll(agent.url, "URL"));
}

/** Answers these paths, and 404 elsewhere. */
const pages =
  (bodies: Record<string, string>): RequestListener =>
  ({ url = "" }, response) =>
    void response.writeHead(bodies[url] === undefined ? 404 : 200).end(bodies[url] ?? "not found");

test("suggests the address of an MCP server, and how a client connects, after a deploy", async () => {
  const mcp: RequestListener = ({ method, url, headers }, response) => {
    if (method !== "POST" || url !== "/mcp") return void response.writeHead(404).end();
    if (!/application\/json.*text\/event-stream/.test(headers.accept ?? "")) return void response.writeHead(406).end();
    response.writeHead(400).end('{"jsonrpc":"2.0","error":{"code":-32000,"message":"No session"},"id":null}');
  };
  assert.deepEqual(await suggested(mcp), [
    "Connect an MCP client to URL/mcp",
    "claude mcp add --transport http agent URL/mcp",
  ]);
});

test("suggests the pages or the card that a server has, and never an address that answers 404", async () => {
  const docs = { "/docs": "<title>Swagger UI</title> /openapi.json" };
  assert.deepEqual(await suggested(pages(docs)), ["Open URL/docs"]);
  const card = { "/.well-known/agent-card.json": '{"name":"greeter","skills":[]}' };
  assert.deepEqual(await suggested(pages(card)), ["curl URL/.well-known/agent-card.json"]);
  assert.deepEqual(await suggested(pages({ "/": "hello" })), ["curl URL/"]);
  assert.deepEqual(await suggested(pages({})), []);
});

test("suggests one address for a site that answers every path with its page", async () => {
  const site: RequestListener = (_, response) => void response.end("<html>");
  assert.deepEqual(await suggested(site), ["curl URL/"]);
});

test("suggests invoke for an agent of LangGraph, and asks an image what it is", async () => {
  assert.deepEqual(await suggested(pages({}), "memory"), ['pierhead invoke agent "Hello"']);
  assert.deepEqual(await suggested(pages({ "/": "hello" }), null), ["curl URL/"]);
});
