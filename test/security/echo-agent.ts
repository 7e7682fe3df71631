import { createAgentRepository } from "../support/agent-repository.ts";
import type { TestServer } from "../support/server.ts";

/** An agent that keeps every header it receives, and answers with the headers that a request to `/answer` names. */
const echoFiles = {
  "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok" }),
  "server.js": `
const http = require("node:http");
const { createHash } = require("node:crypto");
const seen = [];
const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://agent");
  if (url.pathname === "/seen") return response.end(JSON.stringify(seen));
  seen.push({ method: request.method, path: request.url, headers: request.rawHeaders });
  if (url.pathname === "/answer") {
    const headers = JSON.parse(url.searchParams.get("headers"));
    response.writeHead(200, { "content-type": url.searchParams.get("type") ?? "text/plain", ...headers });
    return response.end(url.searchParams.get("body") ?? "hello");
  }
  response.end(JSON.stringify(request.headers));
});
server.on("upgrade", (request, socket) => {
  seen.push({ method: "UPGRADE", path: request.url, headers: request.rawHeaders });
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  const more = url => { const h = new URL(url, "http://agent").searchParams.get("headers"); return h === null ? "" : JSON.parse(h).map((line) => line + "\\r\\n").join(""); };
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + "\\r\\n" + more(request.url) + "\\r\\n");
  socket.on("error", () => {});
});
server.listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`,
};

export interface EchoAgent {
  id: string;
  url: string;
}

/** Deploys the agent, or another one with these files. `more` replaces fields of the request. */
export async function deployEchoAgent(
  { client }: Pick<TestServer, "client">,
  name: string,
  more: object = {},
  files: Record<string, string> = echoFiles,
): Promise<EchoAgent> {
  await using repository = await createAgentRepository(files);
  const made = await client.createDeployment({
    body: {
      name,
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      ...more,
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  const revision = await client.waitForRevision(ids);
  if (revision.status !== "DEPLOYED") throw new Error(`${revision.status}: ${revision.status_message}`);
  return { id: made.id, url: (await client.getDeployment({ deployment_id: made.id })).url ?? "" };
}

/** Everything that an agent has received so far, as text. */
export const seenBy = async (url: string, headers: Record<string, string> = {}): Promise<string> =>
  (await fetch(`${url}/seen`, { headers })).text();
