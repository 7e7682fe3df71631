import {
  Agent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { describeError, type Logger } from "../telemetry/log.ts";
import { type Access, readAccess, repositoryPrefix, type Signer } from "./access-token.ts";
import type { RegistryLogin } from "./registry-login.ts";

/** Registry behind the proxy. */
export interface Upstream {
  /** Scheme, host and port. */
  origin: string;
  /** Socket on this machine that the registry listens on; the host of `origin` has no meaning then. */
  socketPath?: string;
  /** Prefix of its repository names, with a slash at the end; "" for none. */
  prefix: string;
  /** null: it needs no authentication. */
  login: RegistryLogin | null;
}

export interface RegistryProxyOptions {
  signer: Signer;
  upstream(): Promise<Upstream>;
  logger: Logger;
}

/** Headers that are forwarded to the registry. The client's credentials are not among them. */
const forwardedHeaders = [
  "accept",
  "content-type",
  "content-length",
  "content-range",
  "range",
  "if-none-match",
  "user-agent",
];

/**
 * Forwards requests from the port of the API to the registry. Docker sends a token as its password, which identifies the
 * deployment and grants access only to its images. Blobs are streamed, whatever their size.
 */
export class RegistryProxy {
  readonly #options: RegistryProxyOptions;
  #writes = 0;
  /** Initially now, because a push may have started before this process. */
  #lastWriteAtMs = performance.now();
  /** Unlimited connections, because a push over a slow line takes minutes and must not block others. */
  readonly #agents = { "http:": new Agent({ keepAlive: true }), "https:": new TlsAgent({ keepAlive: true }) };

  constructor(options: RegistryProxyOptions) {
    this.#options = options;
  }

  /** Reports whether a request is for the registry. Other paths below `/v2/` belong to the API (contract D10). */
  matches({ url = "" }: IncomingMessage): boolean {
    return /^\/v2\/?($|\?|r\/|_catalog)/.test(url);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request, response).catch((error: unknown) => {
      this.#options.logger.warn({ error: describeError(error) }, "image registry unavailable");
      refuse(response, 503, "UNAVAILABLE", "the image registry is not available; try again");
    });
  }

  /** Milliseconds since the last push ended; 0 while a push is in progress. */
  get quietForMs(): number {
    return this.#writes > 0 ? 0 : performance.now() - this.#lastWriteAtMs;
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const access = this.#accessOf(request);
    if (access === null) {
      // Docker first sends a request without credentials, and then one with those of its login.
      const challenge = { "www-authenticate": 'Basic realm="pierhead"' };
      return refuse(response, 401, "UNAUTHORIZED", "log in with a push token of the deployment", challenge);
    }
    const target = targetOf(request, access);
    if (target === null) return refuse(response, 403, "DENIED", "this token is for other images");
    if (readVerbs.has(request.method ?? "")) return this.#forward(request, response, target);
    this.#writes += 1;
    await this.#forward(request, response, target).finally(() => {
      this.#writes -= 1;
      this.#lastWriteAtMs = performance.now();
    });
  }

  #accessOf({ headers }: IncomingMessage): Access | null {
    const [scheme, value = ""] = (headers.authorization ?? "").split(" ", 2);
    if (scheme?.toLowerCase() !== "basic") return null;
    const [, token = ""] = /^[^:]*:(.*)$/s.exec(Buffer.from(value, "base64").toString("utf8")) ?? [];
    return readAccess(this.#options.signer, token);
  }

  async #forward(request: IncomingMessage, response: ServerResponse, target: string): Promise<void> {
    const upstream = await this.#options.upstream();
    const { protocol, host } = new URL(upstream.origin);
    const isTls = protocol === "https:";
    // The registry on this machine builds its URLs from the Host header of the request.
    const headers: OutgoingHttpHeaders = { host: upstream.login === null ? request.headers.host : host };
    const url = upstreamUrl(upstream, target);
    const authorization = await upstream.login?.authorization(scopesOf(url, request.method));
    // There is no close event any more if the client left meanwhile, so its push would never end.
    if (response.destroyed) return;
    if (authorization != null) headers["authorization"] = authorization;
    for (const name of forwardedHeaders) if (request.headers[name] !== undefined) headers[name] = request.headers[name];
    if (formType.test(request.headers["content-type"] ?? "")) headers["content-type"] = "application/octet-stream";
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const agent = this.#agents[isTls ? "https:" : "http:"];
    const { socketPath } = upstream;
    const forwarded = (isTls ? tlsRequest : httpRequest)(url, {
      ...{ method: request.method, headers, agent },
      ...(socketPath !== undefined && { socketPath }),
    });
    forwarded.on("error", reject);
    forwarded.on("response", (answer) => {
      // A client cannot fix the server's own credentials, so it gets a 503.
      if (answer.statusCode === 401) {
        answer.resume();
        upstream.login?.forget();
        return reject(new Error(`the registry at ${host} refuses the configured credentials`));
      }
      response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...ownLocation(answer, upstream) });
      // A response that breaks off has no end, so the error must end it here.
      answer.once("error", reject).pipe(response).once("finish", resolve);
    });
    response.on("close", () => {
      if (!response.writableFinished) forwarded.destroy();
      resolve();
    });
    request.pipe(forwarded);
    await promise;
  }
}

/** A registry reads parameters from such a body, and they would override the checked parameters of the URL. */
const formType = /^\s*(application\/x-www-form-urlencoded|multipart\/)/i;

const readVerbs = new Set(["GET", "HEAD"]);
const writeVerbs = new Set(["POST", "PUT", "PATCH"]);

/**
 * Returns the path to forward, or null when the token does not allow it. Only the server deletes. A blob may be mounted only
 * from a repository of the same deployment. Otherwise the parameters are removed, and docker uploads the blob.
 */
function targetOf({ method = "", url = "" }: IncomingMessage, { deploymentId, kind }: Access): string | null {
  const { pathname, searchParams } = new URL(url, "http://registry");
  if (/^\/v2\/?$/.test(pathname)) return readVerbs.has(method) ? "/v2/" : null;
  const prefix = repositoryPrefix(deploymentId);
  if (!pathname.startsWith(`/v2/${prefix}`) || /%|\/\.\.?(\/|$)/.test(pathname)) return null;
  if (!readVerbs.has(method) && (kind !== "push" || !writeVerbs.has(method))) return null;
  if (!searchParams.get("from")?.startsWith(prefix)) {
    searchParams.delete("from");
    searchParams.delete("mount");
  }
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams}`;
}

/** Returns the URL of a path in a registry that stores the repositories below a prefix. */
function upstreamUrl({ origin, prefix }: Upstream, target: string): URL {
  const url = new URL(target.replace("/v2/", `/v2/${target === "/v2/" ? "" : prefix}`), origin);
  const from = url.searchParams.get("from");
  if (from !== null) url.searchParams.set("from", prefix + from);
  return url;
}

/** Returns the scopes that a request needs, in the format of token services. */
function scopesOf({ pathname, searchParams }: URL, method = "GET"): string[] {
  const [, repository] = /^\/v2\/(.+)\/(?:blobs|manifests|tags)\//.exec(pathname) ?? [];
  if (repository === undefined) return [];
  const from = searchParams.get("from");
  const own = `repository:${repository}:${readVerbs.has(method) ? "pull" : "pull,push"}`;
  return from === null ? [own] : [own, `repository:${from}:pull`];
}

/** Rewrites a `Location` of the registry to the server's own address, where the push continues. Other hosts stay unchanged. */
function ownLocation({ headers }: IncomingMessage, { origin, prefix }: Upstream): { location?: string } {
  if (headers.location === undefined) return {};
  const { origin: found, pathname, search } = new URL(headers.location, origin);
  if (found !== origin) return {};
  return { location: pathname.replace(`/v2/${prefix}`, "/v2/") + search };
}

function refuse(
  response: ServerResponse,
  status: number,
  code: string,
  message: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent) return void response.destroy();
  const body = JSON.stringify({ errors: [{ code, message }] });
  const own = { "content-type": "application/json", "docker-distribution-api-version": "registry/2.0" };
  // The rest of a refused request is not read.
  response.writeHead(status, { ...own, ...headers, connection: "close" }).end(body);
}
