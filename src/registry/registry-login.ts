import { fetchOutward, type OutboundPolicy } from "../integrations/outbound-fetch.ts";

export interface RegistryCredential {
  username: string;
  password: string;
}

export interface RegistryLoginOptions {
  /** Scheme, host and port of the registry. */
  origin: string;
  /** Returns the operator's credential for a host with its port, or null if there is none. Called for every request. */
  credentialOf(host: string): Promise<RegistryCredential | null>;
  /** As in `OutboundPolicy`, for token services on other hosts. */
  allowPrivateNetwork: boolean;
}

/** Service that issues tokens, as named in the registry's challenge. */
interface TokenService {
  realm: URL;
  service: string | null;
}

const requestTimeoutMs = 10_000;
const tokenBytesMax = 64 * 1024;

/** A registry that changes its authentication is noticed after this time, or at its first refusal. */
const challengeLifeMs = 600_000;

/** A token without an expiry is valid for a minute (distribution's token specification). A request needs part of it. */
const tokenDefaultS = 60;
const tokenMarginMs = 10_000;
const tokensMax = 1_000;

/**
 * Discovers how a registry authenticates requests and produces the header: a user name and password with each request, or a
 * token of the service that it names (https://distribution.github.io/distribution/spec/auth/token/). A host other than the
 * registry's only gets the operator's credentials for that host.
 */
export class RegistryLogin {
  readonly #options: RegistryLoginOptions;
  #challenge: { found: Promise<TokenService | null>; untilMs: number } | undefined;
  readonly #tokens = new Map<string, { token: string; untilMs: number }>();

  constructor(options: RegistryLoginOptions) {
    this.#options = options;
  }

  /**
   * Returns the header to send, or null if there are no credentials.
   * @param scopes `repository:<name>:<actions>`; none for the registry itself.
   * @throws Error with a message for the operator.
   */
  async authorization(scopes: string[]): Promise<string | null> {
    const service = await this.#service();
    if (service !== null) return `Bearer ${await this.#token(service, scopes)}`;
    const credential = await this.#options.credentialOf(new URL(this.#options.origin).host);
    return credential && basicOf(credential);
  }

  /** Drops the tokens and the challenge after the registry has refused a request. */
  forget(): void {
    this.#challenge = undefined;
    this.#tokens.clear();
  }

  /** Returns null if a user name and a password are enough. */
  #service(): Promise<TokenService | null> {
    if (this.#challenge === undefined || this.#challenge.untilMs < performance.now()) {
      const found = this.#discover();
      this.#challenge = { found, untilMs: performance.now() + challengeLifeMs };
      found.catch(() => {
        this.#challenge = undefined;
      });
    }
    return this.#challenge.found;
  }

  async #discover(): Promise<TokenService | null> {
    const url = `${this.#options.origin}/v2/`;
    const answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(requestTimeoutMs) });
    await answer.body?.cancel();
    return answer.status === 401 ? readChallenge(answer.headers.get("www-authenticate") ?? "") : null;
  }

  async #token(service: TokenService, scopes: string[]): Promise<string> {
    const key = scopes.join(" ");
    const cached = this.#tokens.get(key);
    if (cached !== undefined && cached.untilMs > performance.now()) return cached.token;
    const { token, expiresInS } = await this.#requestToken(service, scopes);
    if (this.#tokens.size >= tokensMax) this.#tokens.clear();
    this.#tokens.set(key, { token, untilMs: performance.now() + expiresInS * 1000 - tokenMarginMs });
    return token;
  }

  async #requestToken({ realm, service }: TokenService, scopes: string[]) {
    const url = new URL(realm);
    if (service !== null) url.searchParams.set("service", service);
    for (const scope of scopes) url.searchParams.append("scope", scope);
    const credential = await this.#options.credentialOf(realm.host);
    if (credential === null) {
      throw new Error(
        `the registry at ${this.#host} requires a token of ${realm.host}: add credentials for that host to PIERHEAD_REGISTRY_AUTH_FILE`,
      );
    }
    const answer = await fetchOutward(
      url.href,
      { headers: { authorization: basicOf(credential) } },
      this.#policy(realm),
    );
    if (!answer.ok)
      throw new Error(`${realm.host} issued no token for the registry at ${this.#host}: ${answer.status}`);
    return readToken(await answer.text(), realm);
  }

  get #host(): string {
    return new URL(this.#options.origin).host;
  }

  /** The operator configured the registry, so it may be on a private network. Hosts that it names may not. */
  #policy(realm: URL): OutboundPolicy {
    const isSame = realm.origin === this.#options.origin;
    const { allowPrivateNetwork } = this.#options;
    return {
      allowPrivateNetwork: isSame || allowPrivateNetwork,
      plainHttp: isSame ? "anywhere" : "loopback",
      timeoutMs: requestTimeoutMs,
      bytesMax: tokenBytesMax,
    };
  }
}

const basicOf = ({ username, password }: RegistryCredential) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;

/** Returns null for a registry that accepts both schemes, because Basic is simpler. @throws Error if the realm is not a URL. */
function readChallenge(header: string): TokenService | null {
  if (!/^bearer\s/i.test(header) || /,\s*basic\b/i.test(header)) return null;
  const parameters = new Map(
    [...header.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  const realm = URL.parse(parameters.get("realm") ?? "");
  if (realm === null) throw new Error("the registry requires a token but names no valid address for it");
  return { realm, service: parameters.get("service") ?? null };
}

function readToken(text: string, realm: URL): { token: string; expiresInS: number } {
  try {
    const read = JSON.parse(text) as { token?: unknown; access_token?: unknown; expires_in?: unknown };
    const token = read.token ?? read.access_token;
    if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) {
      return { token, expiresInS: typeof read.expires_in === "number" ? read.expires_in : tokenDefaultS };
    }
  } catch {
    // Not JSON: reported below.
  }
  throw new Error(`the response of ${realm.host} contains no token`);
}
