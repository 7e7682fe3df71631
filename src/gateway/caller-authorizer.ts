import { hash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { TrustedProxies } from "../base/trusted-proxies.ts";
import type { Address } from "./address.ts";
import { type AdmittedCaller, credentialIn, keyHeaders } from "./caller-headers.ts";
import { type Refusal, refusals } from "./refusal.ts";
import type { Admission } from "./route.ts";

/**
 * The control plane's answer about a caller: its workspace and a signed assertion for the deployment, or the refusal. The
 * assertion is absent if the deployment does not admit callers of that workspace.
 */
export type Identified = { workspaceId: string; assertion?: string | undefined } | { status: number; detail: string };

/**
 * Asks the control plane which workspace a caller with these headers belongs to. The control plane counts wrong keys per
 * `address`, the caller's.
 * @throws when the control plane cannot be reached.
 */
export type Identify = (
  headers: Record<string, string>,
  asked: { deploymentId: string; address: string; signal: AbortSignal },
) => Promise<Identified>;

/** While the control plane is away, known callers stay admitted for this long, so that agents keep serving. */
const staleCacheMs = 15 * 60_000;

/** An entry is a digest, an id and an assertion, 800 bytes, so the cache takes at most 8 MiB. */
const callersMax = 10_000;

const identifyTimeoutMs = 10_000;

/** The headers that identify a caller: a key, and the scope that goes with it. */
const credentialHeaders = [...keyHeaders, "x-tenant-id", "x-organization-id"] as const;

interface CallerRequest {
  request: IncomingMessage;
  address: Address;
}

interface Known {
  workspaceId: string;
  assertion?: string | undefined;
  atMs: number;
}

/** Authorizes callers by the control plane's answer, and caches it per caller and deployment. An assertion is valid for longer than that. */
export class CallerAuthorizer {
  readonly #identify: Identify | undefined;
  readonly #proxies: TrustedProxies;
  readonly #memoryMs: number;
  readonly #cache = new Map<string, Known>();

  constructor(identify: Identify | undefined, { proxies, memoryMs }: { proxies: TrustedProxies; memoryMs: number }) {
    this.#identify = identify;
    this.#proxies = proxies;
    this.#memoryMs = memoryMs;
  }

  /** Returns the admitted caller of a request, or the refusal. */
  async authorize(
    { request, address }: CallerRequest,
    { deploymentId, admission }: { deploymentId: string; admission: Admission },
  ): Promise<AdmittedCaller | Refusal> {
    if (isPublic(request, address.path)) return { checked: null, assertion: null };
    const credentials = credentialsIn(request.headers);
    if (!keyHeaders.some((name) => credentials[name] !== undefined)) {
      return refusals.notAdmitted(401, "Invalid token");
    }
    const found = await this.#find(credentials, { deploymentId, address: this.#proxies.clientOf(request) });
    if ("status" in found) return refusals.notAdmitted(found.status, found.detail);
    const isAdmitted = admission.workspaceId === null || admission.workspaceId === found.workspaceId;
    if (!isAdmitted) return refusals.notAdmitted(403, "Forbidden");
    return { checked: credentialIn(credentials), assertion: found.assertion ?? null };
  }

  async #find(credentials: Record<string, string>, asked: { deploymentId: string; address: string }) {
    const name = hash("sha256", JSON.stringify([asked.deploymentId, credentials]), "base64url");
    const known = this.#cache.get(name);
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.atMs;
    if (known !== undefined && ageMs < this.#memoryMs) return known;
    try {
      const found = await this.#callIdentify(credentials, asked);
      // The caller asked too often, which says nothing about its key.
      const isRateLimited = "status" in found && found.status === 429;
      if (isRateLimited && known !== undefined && ageMs < staleCacheMs) return known;
      this.#save(name, found);
      return found;
    } catch {
      if (known !== undefined && ageMs < staleCacheMs) return known;
      return { status: 503, detail: "The caller cannot be checked at the moment." };
    }
  }

  async #callIdentify(credentials: Record<string, string>, asked: { deploymentId: string; address: string }) {
    if (this.#identify === undefined) throw new Error("this gateway has no control plane to ask");
    return this.#identify(credentials, { ...asked, signal: AbortSignal.timeout(identifyTimeoutMs) });
  }

  /** Caches admitted callers only. Wrong keys are asked for each time, because the control plane counts guesses. */
  #save(name: string, found: Identified): void {
    this.#cache.delete(name);
    if ("status" in found) return;
    const { workspaceId, assertion } = found;
    this.#cache.set(name, { workspaceId, assertion, atMs: performance.now() });
    if (this.#cache.size <= callersMax) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

/** Health checks need no key (contract 7.1), and neither do CORS preflight requests. A WebSocket is neither. */
function isPublic({ method, headers }: IncomingMessage, path: string): boolean {
  if (/^websocket$/i.test(headers.upgrade ?? "")) return false;
  if (method === "OPTIONS") return headers["access-control-request-method"] !== undefined;
  return (method === "GET" || method === "HEAD") && /^\/ok\/?(?:\?|$)/.test(path);
}

function credentialsIn(headers: IncomingHttpHeaders): Record<string, string> {
  const found = credentialHeaders.map((name) => [name, headers[name]] as const);
  return Object.fromEntries(
    found.filter((one): one is [(typeof credentialHeaders)[number], string] => typeof one[1] === "string"),
  );
}
