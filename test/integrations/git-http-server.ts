import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Real git over HTTP: `git http-backend` behind node:http, with basic authentication when a credential is given.
 * `/redirect.git` answers with a redirect to `/redirected`.
 */
export async function gitHttpServer(
  root: string,
  credential: { username: string; password: string } | null,
  onRequest: () => void = () => {},
) {
  const redirected: string[] = [];
  const server = createServer((request, response) => {
    onRequest();
    const url = new URL(request.url ?? "/", "http://localhost");
    if (url.pathname.startsWith("/redirected")) redirected.push(url.pathname);
    if (url.pathname.startsWith("/redirect.git")) {
      response.writeHead(302, { location: `/redirected${url.search}` }).end();
    } else if (credential !== null && !isAllowed(request, credential)) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
    } else {
      answer(root, { request, response, url });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    redirected: () => redirected,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function isAllowed(
  { headers }: IncomingMessage,
  { username, password }: { username: string; password: string },
): boolean {
  return headers.authorization === `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/** CGI: headers come first on standard output, then the body. */
function answer(
  root: string,
  { request, response, url }: { request: IncomingMessage; response: ServerResponse; url: URL },
): void {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      PATH_INFO: url.pathname.replace(/^\/([^/]+)\.git/, "/$1.git/.git"),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
    },
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  backend.on("close", () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf("\r\n\r\n");
    for (const line of output.subarray(0, end).toString().split("\r\n")) {
      const [name = "", value = ""] = line.split(/: (.*)/);
      if (name === "Status") response.statusCode = Number.parseInt(value, 10);
      else if (name !== "") response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}
