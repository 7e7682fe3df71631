import { hash } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Address } from "./address.ts";
import { type Refusal, refusals } from "./refusal.ts";
import type { Admission } from "./route.ts";

/** What the control plane says of a caller: his workspace, or the refusal he gets. */
export type Identified = { workspaceId: string } | { status: number; detail: string };

/**
 * Asks the control plane who sends these headers. `address` is where they come from: wrong keys are held against it.
 * @throws when it cannot be asked.
 */
export type Identify = (
  headers: Record<string, string>,
  asked: { address: string; signal: AbortSignal },
) => Promise<Identified>;

/** A key that was revoked is let in this much longer at most (contract 7.4). */
const cacheMs = 60_000;

/** While the control plane is away, callers it knew are let in for so long: agents go on without it. */
const staleCacheMs = 15 * 60_000;

/** A caller is a digest and an id, 200 bytes: 2 MiB. */
const callersMax = 10_000;

const identifyTimeoutMs = 10_000;

/** The headers that say who calls: one of the first, and what goes with it. */
const keyHeaders = ["x-api-key", "authorization", "x-service-key"] as const;
const credentialHeaders = [...keyHeaders, "x-tenant-id", "x-organization-id"] as const;

interface CallerRequest {
  request: IncomingMessage;
  address: Address;
}

/** Lets in who may call, as the control plane says, and remembers it for a minute. */
export class CallerAuthorizer {
  readonly #identify: Identify | undefined;
  readonly #cache = new Map<string, { workspaceId: string; atMs: number }>();

  constructor(identify: Identify | undefined) {
    this.#identify = identify;
  }

  /** @returns null when the request may pass. */
  async authorize({ request, address }: CallerRequest, admission: Admission): Promise<Refusal | null> {
    if (isPublic(request, address.path)) return null;
    const credentials = credentialsIn(request.headers);
    if (!keyHeaders.some((name) => credentials[name] !== undefined)) {
      return refusals.notAdmitted(401, "Invalid token");
    }
    const found = await this.#find(credentials, request.socket.remoteAddress ?? "");
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
      // Asked too often: that says nothing of who calls.
      const isRateLimited = "status" in found && found.status === 429;
      if (isRateLimited && known !== undefined && ageMs < staleCacheMs) return known;
      this.#save(name, found);
      return found;
    } catch {
      if (known !== undefined && ageMs < staleCacheMs) return known;
      return { status: 503, detail: "Who calls cannot be checked at the moment." };
    }
  }

  async #callIdentify(credentials: Record<string, string>, address: string): Promise<Identified> {
    if (this.#identify === undefined) throw new Error("nobody can be asked who calls");
    return this.#identify(credentials, { address, signal: AbortSignal.timeout(identifyTimeoutMs) });
  }

  /** Only who is let in: a wrong key is asked for each time, where guesses are counted. */
  #save(name: string, found: Identified): void {
    this.#cache.delete(name);
    if ("status" in found) return;
    this.#cache.set(name, { workspaceId: found.workspaceId, atMs: performance.now() });
    if (this.#cache.size <= callersMax) return;
    const [oldest] = this.#cache.keys();
    if (oldest !== undefined) this.#cache.delete(oldest);
  }
}

/** Health needs no key (contract 7.1), and browsers ask for permission without one. */
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
