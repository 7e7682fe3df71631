import { Agent, createServer, request as httpRequest, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createGateway, gatewayServerOptions } from "../src/gateway/gateway.ts";
import { createLogger } from "../src/telemetry/log.ts";

/**
 * One part of the gateway benchmark in its own process, so that its CPU time can be measured separately:
 * `agent` (a bare server), `proxy` (a minimal proxy in Node) or `gateway`. Argument 2 is the port of the target.
 * Sends its own port once it listens, and its CPU time on request.
 */
const [role = "", targetPort = ""] = process.argv.slice(2);

const agentServer: RequestListener = ({ url }, response) => {
  if (url?.endsWith("/events")) return sendEvents(response);
  const body = '{"ok":true}';
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body);
};

/** Each event carries the machine's monotonic time of its write. */
function sendEvents(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  let left = 100;
  const timer = setInterval(() => {
    response.write(`data: ${process.hrtime.bigint()}\n\n`);
    left -= 1;
    if (left > 0) return;
    clearInterval(timer);
    response.end();
  }, 10);
}

const agent = new Agent({ keepAlive: true });
const bareProxy: RequestListener = (request, response) => {
  const { method, url: path, headers } = request;
  const upstream = httpRequest({ agent, host: "127.0.0.1", port: targetPort, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  request.pipe(upstream);
};

function gatewayServer(): RequestListener {
  const logger = createLogger("error");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const targets = [{ replicaId: "r1", host: "127.0.0.1", port: Number(targetPort) }];
  const rest = { deploymentId: "d1", revisionId: "rev-1", state: "open", because: null } as const;
  gateway.setRoute({ slug: "demo", targets, ...rest });
  return (request, response) => {
    if (gateway.matches(request)) gateway.handle(request, response);
    else response.writeHead(404, { "content-length": 0 }).end();
  };
}

const listeners = { agent: () => agentServer, proxy: () => bareProxy, gateway: gatewayServer };
const listener = listeners[role as keyof typeof listeners]();
const server = createServer(gatewayServerOptions, listener);
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on("message", () => process.send?.({ cpuMicros: cpuMicros() }));
process.on("disconnect", () => process.exit(0));

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
