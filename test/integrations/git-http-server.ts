import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { gitBackend } from "../support/git-backend.ts";

/**
 * Serves real git over HTTP: `git http-backend` behind node:http, with basic authentication if a credential is given.
 * `/redirect.git` redirects to `/redirected`.
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
      gitBackend(root, url.pathname.replace(/^\/([^/]+)\.git/, "/$1.git/.git"), { request, response, url });
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
