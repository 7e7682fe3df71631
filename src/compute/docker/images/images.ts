import type { ReplicaSpec } from "../../compute.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";

/** A spec that can never run here, whoever tries again. */
export class UnusableSpec extends Error {
  override name = "UnusableSpec";
}

export interface RegistryCredential {
  username: string;
  password: string;
}

type Image = Pick<Extract<ReplicaSpec["artifact"], { kind: "image" }>, "digest" | "uri">;

/** What `GET /images/{name}/json` tells. */
export interface ImageDetails {
  Id: string;
  Size: number;
  RepoTags: string[] | null;
  RepoDigests: string[] | null;
  Config: { Labels: Record<string, string> | null } | null;
}

/** A large image over a slow link: 5 GB at 3 MB/s. */
const pullTimeoutMs = 1_800_000;

/**
 * Images of one engine: found when they are there, pulled when not. What was pulled carries a tag of ours, renewed with
 * each use, so that later it is known whose it is and when it was used last.
 */
export class Images {
  readonly #engine: Engine;
  readonly #credentialOf: (uri: string) => Promise<RegistryCredential | null>;
  readonly #currentUriOf: (uri: string) => string;
  readonly #usedRepository: string;
  readonly #pulls = new Map<string, { done: Promise<void>; waiting: number; abort: AbortController }>();

  constructor(
    engine: Engine,
    options: {
      installationId: string;
      credentialOf: (uri: string) => Promise<RegistryCredential | null>;
      /** Where an image is to be had now that was called so before. Default: there. */
      currentUriOf?: (uri: string) => string;
    },
  ) {
    this.#engine = engine;
    this.#credentialOf = options.credentialOf;
    this.#currentUriOf = options.currentUriOf ?? ((uri) => uri);
    this.#usedRepository = usedRepository(options.installationId);
  }

  /**
   * Makes sure that the image of an artifact is there.
   * @returns its id, which never means another one.
   * @throws UnusableSpec when there is no such image for us; EngineError when this may pass.
   */
  async ensure({ digest, uri }: Image, signal: AbortSignal): Promise<string> {
    // What is pinned by its id was so by us. A digest that was given counts with its name only: else whoever knows the
    // id of another's image could run it.
    const isPinnedById = digest.startsWith("sha256:") && !uri.includes("@");
    const isBuiltHere = uri.startsWith(builtRepositoryPrefix);
    const pinned = isPinnedById ? await this.#find(digest) : undefined;
    // The name of what was built here says its content; any other may mean another image by now, here or in a registry.
    if (isPinnedById && !isBuiltHere && pinned === undefined) throw gone(uri);
    const currentUri = this.#currentUriOf(uri);
    const found = pinned ?? (await this.#find(uri)) ?? (currentUri === uri ? undefined : await this.#find(currentUri));
    if (found !== undefined) {
      if (found.RepoTags?.some((tag) => tag.startsWith(`${this.#usedRepository}:`))) await this.#markUsed(found.Id);
      return found.Id;
    }
    if (isBuiltHere) {
      throw new UnusableSpec("The image of this revision is gone from this server. Build it again.");
    }
    await this.#pullOnce(currentUri, signal);
    const pulled = await this.#find(currentUri);
    if (pulled === undefined) throw new Error(`image ${currentUri} was pulled and is not there`);
    await this.#markUsed(pulled.Id);
    return pulled.Id;
  }

  #find(name: string): Promise<ImageDetails | undefined> {
    return this.#engine.callUnless<ImageDetails>([404], "GET", `/images/${encodeURIComponent(name)}/json`);
  }

  async #markUsed(imageId: string): Promise<void> {
    const query = { repo: this.#usedRepository, tag: imageId.replace("sha256:", "").slice(0, 32) };
    await this.#engine.call("POST", `/images/${imageId}/tag`, { query });
  }

  /** Who waits for an image that is on its way already waits with the others; it is given up with the last of them. */
  async #pullOnce(uri: string, signal: AbortSignal): Promise<void> {
    const pull = this.#pulls.get(uri) ?? this.#beginPull(uri);
    pull.waiting += 1;
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const leave = () => reject(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    try {
      signal.throwIfAborted();
      await Promise.race([pull.done, aborted]);
    } finally {
      signal.removeEventListener("abort", leave);
      pull.waiting -= 1;
      if (pull.waiting === 0) pull.abort.abort(new Error("nobody wants this image any more"));
    }
  }

  #beginPull(uri: string) {
    const abort = new AbortController();
    const done = this.#pull(uri, abort.signal).finally(() => this.#pulls.delete(uri));
    done.catch(() => {});
    const pull = { done, waiting: 0, abort };
    this.#pulls.set(uri, pull);
    return pull;
  }

  async #pull(uri: string, signal: AbortSignal): Promise<void> {
    const isTagged = uri.includes("@") || /:[^/]+$/.test(uri);
    const query = { fromImage: uri, tag: isTagged ? undefined : "latest" };
    const headers = authHeader(uri, await this.#credentialOf(uri));
    const progress = this.#engine.values<{ error?: string }>("POST", "/images/create", {
      query,
      headers,
      signal,
      timeoutMs: pullTimeoutMs,
    });
    try {
      for await (const { error } of progress) if (error !== undefined) throw new EngineError(500, error);
    } catch (error) {
      throw error instanceof EngineError && isFinal(error) ? unavailable(uri, error) : error;
    }
  }
}

/** Padded base64url, as the engine wants it; it ignores anything else without a word. */
export function authHeader(uri: string, credential: RegistryCredential | null): Record<string, string> {
  if (credential === null) return {};
  const text = Buffer.from(JSON.stringify({ ...credential, serveraddress: registryOf(uri) })).toString("base64");
  return { "x-registry-auth": text.replaceAll("+", "-").replaceAll("/", "_") };
}

/** Whether the server in an image keeps state of its own, by the labels of the image: it is handed over then, and gets a volume. */
export const keepsState = (given: Record<string, string> | null | undefined) => given?.[labels.state] === "exclusive";

/** Images that builds on this server make. No registry is called so. */
export const builtRepositoryPrefix = "pierhead-built/";
export const builtRepository = (installationId: string) => `${builtRepositoryPrefix}${installationId.slice(0, 8)}`;

/** Among them those that builds put agents on: one for each state of what is in it, so the next version brings others. */
export const baseTag = (installationId: string) => `${builtRepository(installationId)}:base-`;

/** Tags of images that we brought here, and that we may therefore remove. */
export const usedRepository = (installationId: string) => `pierhead-used/${installationId.slice(0, 8)}`;

/**
 * Whether a name leads to an image that we made or keep, whoever it is for: by our own repositories, however the engine's
 * default registry is spelt, or by an image's id, of which the engine takes any beginning.
 */
export function isReservedImage(name: string): boolean {
  const local = name.replace(/^(index\.)?docker\.io\//, "");
  return /^pierhead-(built|used)\//.test(local) || /^(sha256:)?[0-9a-f]+$/.test(local);
}

/** Host and port of the registry an image is in; the engine's own when it names none. */
export function registryOf(uri: string): string {
  const [first = "", ...rest] = uri.split("/");
  const isHost = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return isHost ? first : "docker.io";
}

/** The registry knows: asking again will not help. Anything else may be a network that is down. */
function isFinal({ status, message }: EngineError): boolean {
  if (status === 404 || status === 400) return true;
  return /not found|manifest unknown|denied|unauthorized|authentication required|no matching manifest/i.test(message);
}

const gone = (uri: string) =>
  new UnusableSpec(
    `The image that ${uri} meant when this revision was made is gone from this server. Deploy what it means now as a new revision.`,
  );

function unavailable(uri: string, { message }: EngineError): UnusableSpec {
  return new UnusableSpec(
    `The image ${uri} cannot be pulled: ${message}. Push it, correct its name, or let the operator give this server credentials for the registry.`,
  );
}
