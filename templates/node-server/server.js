import { createServer } from "node:http";

const startedAt = new Date();

/** Pierhead chooses the port and waits until /ok answers 200. */
const port = Number(process.env.PORT ?? 8000);

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
  if (pathname === "/ok") return sendJson(response, 200, { ok: true });
  if (pathname === "/") return sendJson(response, 200, { message: "Hello from Pierhead", started_at: startedAt });
  if (pathname === "/events") return sendEvents(response, Number(searchParams.get("count") ?? 5));
  return sendJson(response, 404, { detail: "Not found" });
});

server.listen(port, process.env.HOST ?? "0.0.0.0", () => console.log(`listening on port ${port}`));

/** Refuses new connections and exits when the running requests have ended. */
process.on("SIGTERM", () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});

function sendJson(response, status, body) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** Server-sent events: one number every 200 ms. */
function sendEvents(response, count) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  let sent = 0;
  const timer = setInterval(() => {
    sent += 1;
    response.write(`event: tick\ndata: ${JSON.stringify({ number: sent })}\n\n`);
    if (sent >= count) {
      clearInterval(timer);
      response.end();
    }
  }, 200);
  response.on("close", () => clearInterval(timer));
}
