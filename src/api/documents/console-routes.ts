import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type { FastifyReply, FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";
import { htmlText, pagePolicy, pageStyle } from "../http/page-style.ts";
import { mountOf } from "../http/path-prefixes.ts";
import type { Api } from "../http/route.ts";
import { answerWith, type StaticFile, staticFile } from "./static-file.ts";

/**
 * The console may only load its own files and call its own server, and no text can become script. Its styles are one
 * file. Styles that a script sets are not restricted by this policy.
 */
const consolePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; form-action 'none'; base-uri 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
  "trusted-types 'none'";

/**
 * Serves the console at `/` and at the addresses that public clients print (contract 1.1). One page serves all of them
 * and decides itself what to show. The page contains no data: everything comes from the API.
 */
export function addConsole({ server, deps: { settings } }: Api): void {
  const files = createConsoleFiles(settings.consoleDir);
  const config = { operation: "getConsole" };
  const page = async (request: FastifyRequest, reply: FastifyReply) => {
    const found = (await files()).get("index.html");
    if (found === undefined) {
      return reply.header("content-security-policy", pagePolicy).type("text/html; charset=utf-8").send(missingPage);
    }
    const base = `<base href="${htmlText(mountOf(request.raw))}/">`;
    const bytes = Buffer.from(found.bytes.toString("utf8").replace('<base href="/">', base));
    reply.headers({ "content-security-policy": consolePolicy, "cache-control": "no-cache" });
    reply.headers({ "referrer-policy": "same-origin", "cross-origin-opener-policy": "same-origin" });
    return send(request, reply, base === '<base href="/">' ? found : await consoleFile("index.html", bytes));
  };
  for (const url of pageUrls) server.get(url, { config }, page);
  server.get<{ Params: { name: string } }>("/assets/:name", { config }, async (request, reply) => {
    const found = (await files()).get(`assets/${request.params.name}`);
    if (found === undefined) throw errors.routeNotFound();
    // The build puts a digest into each file name.
    return send(request, reply.header("cache-control", "public, max-age=31536000, immutable"), found);
  });
}

/**
 * Addresses of the page: a list, one of its resources, a part of that resource, each optionally below its workspace.
 */
const pageUrls = [
  "/",
  "/host/:page",
  "/host/:page/:id",
  "/o/:tenant_id/host/:page",
  "/o/:tenant_id/host/:page/:id",
  "/o/:tenant_id/host/:page/:id/:part",
];

/**
 * Reads the files on the first request that finds them and caches them. Requests look files up by name and never open
 * one.
 */
function createConsoleFiles(directory: string | null): () => Promise<ReadonlyMap<string, StaticFile>> {
  let known: Promise<ReadonlyMap<string, StaticFile>> | undefined;
  return async () => {
    if (directory === null) return new Map();
    known ??= readFiles(directory);
    const files = await known;
    // The console may still be building.
    if (files.size === 0) known = undefined;
    return files;
  };
}

async function readFiles(directory: string): Promise<ReadonlyMap<string, StaticFile>> {
  try {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    const names = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
    const read = names.map(async (name) => {
      const key = path.relative(directory, name).replaceAll(path.sep, "/");
      return [key, await consoleFile(key, await readFile(name))] as const;
    });
    return new Map(await Promise.all(read));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return new Map();
    throw error;
  }
}

function consoleFile(name: string, bytes: Buffer): Promise<StaticFile> {
  const type = types[path.extname(name)] ?? "application/octet-stream";
  return staticFile(bytes, type, { isCompressed: type === types[".woff2"] });
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

function send(request: FastifyRequest, reply: FastifyReply, file: StaticFile): FastifyReply {
  const { status, headers, bytes } = answerWith(request, file);
  return reply.code(status).headers(headers).send(bytes);
}

const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pierhead</title><style>${pageStyle}</style></head><body>
<h1>Pierhead</h1><p>The console has not been built. To build it in a clone of Pierhead:</p><pre><code>npm run build</code></pre>
<p>The command line shows the same information:</p><pre><code>npx pierhead list</code></pre>
</body></html>
`;
