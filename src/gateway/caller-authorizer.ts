import { hash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { noTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import type { Address } from "./address.ts";
import { type Refusal, refusals } from "./refusal.ts";
import type { Admission } from "./route.ts";

/** The control plane's answer about a caller: its workspace, or the refusal. */
export type Identified = { workspaceId: string } | { status: number; detail: string };

/**
 * Asks the control plane which workspace a caller with these headers belongs to. The control plane counts wrong keys per
 * `address`, the caller's.
 * @throws when the control plane cannot be reached.
 */
export type Identify = (
  headers: Record<string, string>,
  asked: { address: string; signal: AbortSignal },
) => Promise<Identified>;

/** A revoked key works at most this much longer (contract 7.4). */
const cacheMs = 60_000;

/** While the control plane is away, known callers stay admitted for this long, so that agents keep serving. */
const staleCacheMs = 15 * 60_000;

/** An entry is a digest and an id, 200 bytes, so the cache takes at most 2 MiB. */
const callersMax = 10_000;

const identifyTimeoutMs = 10_000;

/** The headers that identify a caller: a key, and the scope that goes with it. */
const keyHeaders = ["x-api-key", "authorization", "x-service-key"] as const;
const credentialHeaders = [...keyHeaders, "x-tenant-id", "x-organization-id"] as const;

interface CallerRequest {
  request: IncomingMessage;
  address: Address;
}

/** Authorizes callers by the control plane's answer, and caches it for a minute. */
export class CallerAuthorizer {
  readonly #identify: Identify | undefined;
  readonly #proxies: TrustedProxies;
  readonly #cache = new Map<string, { workspaceId: string; atMs: number }>();

  constructor(identify: Identify | undefined, proxies: TrustedProxies = noTrustedProxies) {
    this.#identify = identify;
    this.#proxies = proxies;
  }

  /** Returns the refusal of a request, or null if it may pass. */
  async authorize({ request, address }: CallerRequest, admission: Admission): Promise<Refusal | null> {
    if (isPublic(request, address.path)) return null;
    const credentials = credentialsIn(request.headers);
    if (!keyHeaders.some((name) => credentials[name] !== undefined)) {
      return refusals.notAdmitted(401, "Invalid token");
    }
    const found = await this.#find(credentials, this.#proxies.clientOf(request));
    if ("status" in found) return refusals.notAdmitted(found.status, found.detail);
    const isAdmitted = admission.workspaceId === null || admission.workspaceId === found.workspaceId;
    return isAdmitted ? null : refusals.notAdmitted(403, "Forbidden");
  }

  async #find(credentials: Record<string, string>, from: string): Promise<Identified> {
    const name = hash("sha256", JSON.stringify(credentials), "base64url");
    const known = this.#cache.get(name);
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.atMs;
    if (known !== undefined && ageMs < cacheMs) return known;
    try {
      const found = await this.#callIdentify(credentials, from);
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

  async #callIdentify(credentials: Record<string, string>, address: string): Promise<Identified> {
    if (this.#identify === undefined) throw new Error("this gateway has no control plane to ask");
    return this.#identify(credentials, { address, signal: AbortSignal.timeout(identifyTimeoutMs) });
  }

  /** Caches admitted callers only. Wrong keys are asked for each time, because the control plane counts guesses. */
  #save(name: string, found: Identified): void {
    this.#cache.delete(name);
    if ("status" in found) return;
    this.#cache.set(name, { workspaceId: found.workspaceId, atMs: performance.now() });
    if (this.#cache.size <= callersMax) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

/** Health checks need no key (contract 7.1), and neither do CORS preflight requests. */
function isPublic({ method, headers }: IncomingMessage, path: string): boolean {
  if (method === "OPTIONS") return headers["access-control-request-method"] !== undefined;
  return (method === "GET" || method === "HEAD") && /^\/ok\/?(?:\?|$)/.test(path);
}

function credentialsIn(headers: IncomingHttpHeaders): Record<string, string> {
  const found = credentialHeaders.map((name) => [name, headers[name]] as const);
  return Object.fromEntries(
    found.filter((one): one is [(typeof credentialHeaders)[number], string] => typeof one[1] === "string"),
  );
}
