import { spawn } from "node:child_process";
import type { IncomingMessage, ServerResponse } from "node:http";

/** Runs `git http-backend` as CGI: standard output contains the headers first, then the body. */
export function gitBackend(
  directory: string,
  pathInfo: string,
  { request, response, url }: { request: IncomingMessage; response: ServerResponse; url: URL },
): void {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: directory,
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      PATH_INFO: pathInfo,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
      GIT_CONFIG_COUNT: "3",
      ...{ GIT_CONFIG_KEY_0: "uploadpack.allowAnySHA1InWant", GIT_CONFIG_VALUE_0: "true" },
      ...{ GIT_CONFIG_KEY_1: "uploadpack.allowFilter", GIT_CONFIG_VALUE_1: "true" },
      ...{ GIT_CONFIG_KEY_2: "safe.directory", GIT_CONFIG_VALUE_2: "*" },
    },
  });
  request.pipe(backend.stdin);
  backend.stdin.on("error", () => {});
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
