import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface TracingCall {
  method: string;
  path: string;
  key: string | undefined;
  workspace: string | undefined;
  body: Record<string, unknown> | null;
}

/** A tracing backend with the API of LangSmith over real HTTP. It stores projects in memory and records every call. */
export interface TracingServer extends AsyncDisposable {
  url: string;
  calls: TracingCall[];
  /** Name by id. */
  projects: Map<string, string>;
  /** `away`: answers 503. `silent`: accepts requests and never answers. */
  state: "up" | "away" | "silent";
  /** Ids that the server rejects although no project has them. */
  spentIds: Set<string>;
}

export async function startTracingServer(): Promise<TracingServer> {
  const made = {
    calls: [] as TracingCall[],
    projects: new Map<string, string>(),
    state: "up" as TracingServer["state"],
    spentIds: new Set<string>(),
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://tracing");
    const sent = await text(request);
    const body = sent === "" ? null : (JSON.parse(sent) as Record<string, unknown>);
    const { "x-api-key": key, "x-tenant-id": workspace } = request.headers as Record<string, string>;
    made.calls.push({ method: request.method ?? "", path: url.pathname, key, workspace, body });
    if (made.state === "silent") return;
    const answer = (status: number, value: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (made.state === "away") return answer(503, { detail: "maintenance" });
    if (key !== "ls-key") return answer(401, { detail: "Invalid token" });
    const [status, value] = act(made, request.method ?? "", url, body);
    return answer(status, value);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(made, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  });
}

type World = Pick<TracingServer, "projects" | "spentIds">;

function act(
  { projects, spentIds }: World,
  method: string,
  url: URL,
  body: Record<string, unknown> | null,
): [status: number, value: unknown] {
  if (method === "GET") {
    const name = url.searchParams.get("name");
    return [200, [...projects].flatMap(([id, found]) => (found === name ? [{ id, name }] : []))];
  }
  if (method === "POST") {
    const [id, name] = [(body?.["id"] as string | undefined) ?? crypto.randomUUID(), body?.["name"] as string];
    const isTaken = spentIds.has(id) || projects.has(id) || [...projects.values()].includes(name);
    if (isTaken) return [409, { detail: "Session with this name already exists." }];
    projects.set(id, name);
    return [200, { id, name }];
  }
  return [projects.delete(url.pathname.split("/").at(-1) as string) ? 202 : 404, { message: "deleted" }];
}
