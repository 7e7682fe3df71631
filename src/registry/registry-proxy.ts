import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request, type ServerResponse } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { describeError, type Logger } from "../telemetry/log.ts";
import { type Access, readAccess, repositoryPrefix, type Signer } from "./access-token.ts";
import type { RegistryLogin } from "./registry-login.ts";

/** The registry behind the door. */
export interface Upstream {
  /** Scheme, host and port. */
  origin: string;
  /** Of the names of its repositories, with a slash at its end; "" for none. */
  prefix: string;
  /** null: it asks nobody. */
  login: RegistryLogin | null;
}

export interface DoorOptions {
  signer: Signer;
  upstream(): Promise<Upstream>;
  logger: Logger;
}

/** What of a request the registry is told; above all not who asks. */
const passedOn = ["accept", "content-type", "content-length", "content-range", "range", "if-none-match", "user-agent"];

/**
 * The way to the registry, on the port of the API: knows the deployment by the token that docker sends as a password,
 * and lets it see and change its own images only. Blobs pass through as they come, of any size.
 */
export class RegistryDoor {
  readonly #options: DoorOptions;
  #writes = 0;
  /** A push may go on that began before this process did. */
  #lastWriteAtMs = performance.now();
  /** As many connections as there are clients: a push over a slow line takes minutes, and nobody waits for another's. */
  readonly #agents = { "http:": new Agent({ keepAlive: true }), "https:": new TlsAgent({ keepAlive: true }) };

  constructor(options: DoorOptions) {
    this.#options = options;
  }

  /** Whether a request is for the registry; other paths below `/v2/` are the API's (contract D10). */
  matches({ url = "" }: IncomingMessage): boolean {
    return /^\/v2\/?($|\?|r\/|_catalog)/.test(url);
  }

  handle(asked: IncomingMessage, response: ServerResponse): void {
    this.#answer(asked, response).catch((error: unknown) => {
      this.#options.logger.warn({ error: describeError(error) }, "the image registry does not answer");
      refuse(response, 503, "UNAVAILABLE", "the image registry is not available; try again");
    });
  }

  /** How long nobody has pushed; 0 while somebody does. */
  get quietForMs(): number {
    return this.#writes > 0 ? 0 : performance.now() - this.#lastWriteAtMs;
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  async #answer(asked: IncomingMessage, response: ServerResponse): Promise<void> {
    const access = this.#accessOf(asked);
    if (access === null) {
      // Docker asks without credentials first, and then with those of its login.
      const challenge = { "www-authenticate": 'Basic realm="pierhead"' };
      return refuse(response, 401, "UNAUTHORIZED", "log in with a push token of the deployment", challenge);
    }
    const target = targetOf(asked, access);
    if (target === null) return refuse(response, 403, "DENIED", "this token is for other images");
    if (readVerbs.has(asked.method ?? "")) return this.#pass(asked, response, target);
    this.#writes += 1;
    await this.#pass(asked, response, target).finally(() => {
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

  async #pass(asked: IncomingMessage, response: ServerResponse, target: string): Promise<void> {
    const upstream = await this.#options.upstream();
    const { protocol, host } = new URL(upstream.origin);
    const isTls = protocol === "https:";
    // The registry on this machine makes its addresses of the name it was called by.
    const headers: OutgoingHttpHeaders = { host: upstream.login === null ? asked.headers.host : host };
    const url = placeIn(upstream, target);
    const authorization = await upstream.login?.authorization(scopesOf(url, asked.method));
    // Who left meanwhile is heard of no more, and a push of theirs would not end.
    if (response.destroyed) return;
    if (authorization != null) headers["authorization"] = authorization;
    for (const name of passedOn) if (asked.headers[name] !== undefined) headers[name] = asked.headers[name];
    if (formType.test(asked.headers["content-type"] ?? "")) headers["content-type"] = "application/octet-stream";
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const agent = this.#agents[isTls ? "https:" : "http:"];
    const passed = (isTls ? tlsRequest : request)(url, { method: asked.method, headers, agent });
    passed.on("error", reject);
    passed.on("response", (answer) => {
      // That we are not known there is nothing a client could change.
      if (answer.statusCode === 401) {
        answer.resume();
        upstream.login?.forget();
        return reject(new Error(`the registry at ${host} refuses the credentials it was given`));
      }
      response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...placeOf(answer, upstream) });
      // One that breaks off has no end that would be passed on.
      answer.once("error", reject).pipe(response).once("finish", resolve);
    });
    response.on("close", () => {
      if (!response.writableFinished) passed.destroy();
      resolve();
    });
    asked.pipe(passed);
    await promise;
  }
}

/** A registry reads parameters from such a body as well, and believes them more than those of the address that were checked. */
const formType = /^\s*(application\/x-www-form-urlencoded|multipart\/)/i;

const readVerbs = new Set(["GET", "HEAD"]);
const writeVerbs = new Set(["POST", "PUT", "PATCH"]);

/**
 * The path to pass on, or null when the token does not allow it. Deleting is ours alone. A blob of another repository
 * may be mounted from the same deployment only: from elsewhere docker then sends it.
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

/** The same place in a registry that keeps our repositories below a prefix. */
function placeIn({ origin, prefix }: Upstream, target: string): URL {
  const url = new URL(target.replace("/v2/", `/v2/${target === "/v2/" ? "" : prefix}`), origin);
  const from = url.searchParams.get("from");
  if (from !== null) url.searchParams.set("from", prefix + from);
  return url;
}

/** What a request needs to be allowed, in the words of token services. */
function scopesOf({ pathname, searchParams }: URL, method = "GET"): string[] {
  const [, repository] = /^\/v2\/(.+)\/(?:blobs|manifests|tags)\//.exec(pathname) ?? [];
  if (repository === undefined) return [];
  const from = searchParams.get("from");
  const own = `repository:${repository}:${readVerbs.has(method) ? "pull" : "pull,push"}`;
  return from === null ? [own] : [own, `repository:${from}:pull`];
}

/** Where a push goes on, as its client has to be told: on our own address. What lies elsewhere, such as blobs, stays there. */
function placeOf({ headers }: IncomingMessage, { origin, prefix }: Upstream): { location?: string } {
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
  // What a refused client still sends is not read.
  response.writeHead(status, { ...own, ...headers, connection: "close" }).end(body);
}
