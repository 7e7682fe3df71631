import { NoCapacity, RegistryUnreachable, type ReplicaSpec } from "../../compute.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";
import { orNoCapacity } from "../replicas/start-failure.ts";
import { type ImageDetails, ImageTooLarge, inspectImage } from "./inspect-image.ts";

/** A spec that can never run here: retrying cannot help. */
export class UnusableSpec extends Error {
  override name = "UnusableSpec";
  /** As in `ReplicaExit`. */
  readonly reason: "ImagePull" | "StartError";

  constructor(message: string, reason: "ImagePull" | "StartError" = "StartError") {
    super(message);
    this.reason = reason;
  }
}

export interface RegistryCredential {
  username: string;
  password: string;
}

type Image = Pick<Extract<ReplicaSpec["artifact"], { kind: "image" }>, "digest" | "uri">;

/** A large image over a slow link: 5 GB at 3 MB/s takes half an hour. */
const pullTimeoutMs = 1_800_000;

/**
 * Images of one engine, pulled when they are missing. Pulled images get a tag of ours that is renewed with each use, so
 * that garbage collection knows which images are ours and when they were last used.
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
      /** Returns the current name of an image whose registry has moved. Default: the same name. */
      currentUriOf?: (uri: string) => string;
    },
  ) {
    this.#engine = engine;
    this.#credentialOf = options.credentialOf;
    this.#currentUriOf = options.currentUriOf ?? ((uri) => uri);
    this.#usedRepository = usedRepository(options.installationId);
  }

  /**
   * Makes sure that the image of an artifact exists, pulling it if needed.
   * @returns its id, which never refers to another image
   * @throws UnusableSpec when there is no such image for this server; EngineError when the failure may be temporary
   */
  async ensure({ digest, uri }: Image, signal: AbortSignal): Promise<string> {
    // A digest that stands for an image id was recorded by us. A digest from a user counts only together with its name:
    // otherwise anyone who knows the id of another workspace's image could run it.
    const isPinnedById = digest.startsWith("sha256:") && !uri.includes("@");
    const isBuiltHere = uri.startsWith(builtRepositoryPrefix);
    const pinned = isPinnedById ? await this.#find(digest) : undefined;
    // Names of images built here are derived from their content. Any other name may refer to another image by now.
    if (isPinnedById && !isBuiltHere && pinned === undefined) throw gone(uri);
    const currentUri = this.#currentUriOf(uri);
    const found = pinned ?? (await this.#find(uri)) ?? (currentUri === uri ? undefined : await this.#find(currentUri));
    if (found !== undefined) {
      if (found.RepoTags?.some((tag) => tag.startsWith(`${this.#usedRepository}:`))) await this.#markUsed(found.Id);
      return found.Id;
    }
    if (isBuiltHere) {
      throw new UnusableSpec("The image of this revision no longer exists on this server. Build the revision again.");
    }
    await this.#pullOnce(currentUri, signal);
    const pulled = await this.#find(currentUri);
    if (pulled === undefined) throw new Error(`image ${currentUri} was pulled, but the engine does not have it`);
    await this.#markUsed(pulled.Id);
    return pulled.Id;
  }

  async #find(name: string): Promise<ImageDetails | undefined> {
    try {
      return await inspectImage(this.#engine, name);
    } catch (error) {
      if (!(error instanceof ImageTooLarge)) throw error;
      throw new UnusableSpec(`The image ${name} cannot be used: ${error.message}. Build it with less.`);
    }
  }

  /** Removes an image that cannot be used. It was not here before its pull, so nothing else needs it. @throws as `find` */
  async #keepIfUsable(uri: string): Promise<void> {
    try {
      await this.#find(uri);
    } catch (error) {
      // 409: a container uses it.
      if (error instanceof UnusableSpec)
        await this.#engine.callUnless([404, 409], "DELETE", `/images/${encodeURIComponent(uri)}`);
      throw error;
    }
  }

  async #markUsed(imageId: string): Promise<void> {
    const query = { repo: this.#usedRepository, tag: imageId.replace("sha256:", "").slice(0, 32) };
    await this.#engine.call("POST", `/images/${imageId}/tag`, { query });
  }

  /** Shares a pull between all callers that wait for the image. It is cancelled when the last of them aborts. */
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
      if (pull.waiting === 0) pull.abort.abort(new Error("the image is no longer needed"));
    }
  }

  #beginPull(uri: string) {
    const abort = new AbortController();
    const done = this.#pull(uri, abort.signal)
      .then(() => this.#keepIfUsable(uri))
      .finally(() => this.#pulls.delete(uri));
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
      if (!(error instanceof EngineError)) throw error;
      if (isFinal(error)) throw unavailable(uri, error);
      const cause = orNoCapacity(error);
      if (cause instanceof NoCapacity) throw cause;
      throw new RegistryUnreachable(
        `The image ${uri} cannot be pulled now: ${error.message}. Check that this machine reaches its registry.`,
        { cause: error },
      );
    }
  }
}

/** Encodes a credential as padded base64url. The engine silently ignores other encodings. */
export function authHeader(uri: string, credential: RegistryCredential | null): Record<string, string> {
  if (credential === null) return {};
  const text = Buffer.from(JSON.stringify({ ...credential, serveraddress: registryOf(uri) })).toString("base64");
  return { "x-registry-auth": text.replaceAll("+", "-").replaceAll("/", "_") };
}

/** Returns whether the labels of an image declare exclusive state. Such a server is rolled out by handover and gets a volume. */
export const keepsState = (given: Record<string, string> | null | undefined) => given?.[labels.state] === "exclusive";

/** Prefix of images that this server builds. No registry has this name. */
export const builtRepositoryPrefix = "pierhead-built/";
export const builtRepository = (installationId: string) => `${builtRepositoryPrefix}${installationId.slice(0, 8)}`;

/** Tag prefix of base images for builds. Each content has its own tag, so that the next version of Pierhead gets new ones. */
export const baseTag = (installationId: string) => `${builtRepository(installationId)}:base-`;

/** Repository for tags of images that we pulled and may therefore remove. */
export const usedRepository = (installationId: string) => `pierhead-used/${installationId.slice(0, 8)}`;

/**
 * Returns whether a name refers to an image that belongs to this server: by our own repositories, in any spelling of the
 * default registry, or by image id, of which the engine accepts any prefix.
 */
export function isReservedImage(name: string): boolean {
  const local = name.replace(/^(index\.)?docker\.io\//, "");
  return /^pierhead-(built|used)\//.test(local) || /^(sha256:)?[0-9a-f]+$/.test(local);
}

/** Returns host and port of an image's registry, or the engine's default registry. */
export function registryOf(uri: string): string {
  const [first = "", ...rest] = uri.split("/");
  const isHost = rest.length > 0 && (/[.:A-Z]/.test(first) || first === "localhost");
  return isHost ? first : "docker.io";
}

/** Returns whether the registry has refused for good. Other errors may be network failures that pass. */
function isFinal({ status, message }: EngineError): boolean {
  if (status === 404 || status === 400) return true;
  return /not found|manifest unknown|denied|unauthorized|authentication required|no matching manifest/i.test(message);
}

const gone = (uri: string) =>
  new UnusableSpec(
    `The image that ${uri} referred to when this revision was created no longer exists on this server. Deploy the image that the name refers to now as a new revision.`,
    "ImagePull",
  );

function unavailable(uri: string, { message }: EngineError): UnusableSpec {
  return new UnusableSpec(
    `The image ${uri} cannot be pulled: ${message}. Push the image, correct its name, or ask the operator to give this server credentials for the registry.`,
    "ImagePull",
  );
}
