import path from "node:path";
import { type PinnedImage, pinImage } from "../builds/image/pin-image.ts";
import { registryProblem } from "../builds/image/registries.ts";
import { isReservedImage, keepsState, type RegistryCredential } from "../compute/docker/images/images.ts";
import { readRegistryCredential } from "../compute/docker/images/registry-auth.ts";
import { repositoryPrefix } from "../registry/access-token.ts";
import { parseOwnImage, Registry } from "../registry/registry.ts";
import { RegistryLogin } from "../registry/registry-login.ts";
import { findRegistryProgram } from "../registry/registry-process.ts";
import type { Upstream } from "../registry/registry-proxy.ts";
import { findKnownDigests } from "../store/builds/artifacts.ts";
import type { Db } from "../store/engine/database.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import { textSigner } from "../store/secrets/signature.ts";
import { findKnownDeployments, findTenantOf } from "../store/tenants/tenants.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";

/** Returns the registry of this server, or the reason why it has none, as a continuation of "This server has no image registry:". */
export function openRegistry(
  config: Config,
  { sealer, logger }: { sealer: Sealer; logger: Logger },
): Registry | string {
  if (config.compute !== "docker") return "it runs no containers. Start it with PIERHEAD_COMPUTE=docker.";
  if (config.registry === "none") return "it was switched off (PIERHEAD_REGISTRY=none).";
  const signer = textSigner(sealer);
  if (config.registryUrl !== undefined)
    return new Registry({ location: upstreamOf(config.registryUrl, config), signer, logger });
  const program = config.registryProgram ?? findRegistryProgram();
  if (program === null) return "its program is not installed. Debian: apt-get install docker-registry.";
  return new Registry({ location: { directory: path.join(config.dataDir, "registry"), program }, signer, logger });
}

/**
 * Returns the operator's registry. Its credential is read each time, as for other registries.
 * @throws Error naming the variable when the address is invalid.
 */
function upstreamOf(address: string, { registryAuthFile, allowPrivateNetwork }: Config): () => Promise<Upstream> {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "") {
    throw new Error(`PIERHEAD_REGISTRY_URL must be an http or https address without credentials, got "${address}"`);
  }
  const { origin, pathname } = url;
  const prefix = pathname.replace(/^\/+|\/+$/g, "");
  const credentialOf = async (host: string) =>
    registryAuthFile === undefined ? null : readRegistryCredential(registryAuthFile, `${host}/x`);
  const login = new RegistryLogin({ origin, credentialOf, allowPrivateNetwork });
  const upstream = { origin, prefix: prefix === "" ? "" : `${prefix}/`, login };
  return async () => upstream;
}

export type ImageFound = ({ ok: true } & PinnedImage) | { ok: false; message: string };

/** Resolves image names to their source: this server's registry, other registries, or the engine. */
export class ImageNames {
  readonly #config: Config;
  readonly #db: Db;
  readonly #registry: Registry | string;
  /** URL of this server; known once it listens. */
  readonly #ownUrl: () => string;

  constructor(config: Config, parts: { db: Db; registry: Registry | string; ownUrl: () => string }) {
    this.#config = config;
    this.#db = parts.db;
    this.#registry = parts.registry;
    this.#ownUrl = parts.ownUrl;
  }

  /**
   * Resolves an image name to a digest for one tenant. Images in this server's registry belong to the workspace of their
   * deployment. Images of other workspaces get the same answer as missing ones.
   */
  async resolve(uri: string, tenantId: string): Promise<ImageFound> {
    const missing = {
      ok: false as const,
      message: `There is no image ${uri} in the registry of this server. Push it with a push token of its deployment.`,
    };
    if (isReservedImage(uri)) return missing;
    const own = parseOwnImage(uri);
    const owner = own === null ? undefined : await findTenantOf(this.#db, own.deploymentId);
    if (own === null || (owner === undefined && !this.#mayBeOwnHost(uri))) return this.#resolveElsewhere(uri);
    const registry = this.#registry;
    if (owner !== tenantId || typeof registry === "string") return missing;
    const digest = await registry.findDigest(own.deploymentId, own.name, own.reference);
    if (digest === null) return missing;
    // Loopback, because the engine runs on this machine and accepts plain HTTP without settings only there.
    const name = `${repositoryPrefix(own.deploymentId)}${own.name}`;
    const labels = await registry.readLabels(own.deploymentId, own.name, digest);
    return { ok: true, uri: `${this.#ownHost()}/${name}@${digest}`, digest, keepsState: keepsState(labels) };
  }

  /** Returns the current name of an image that was resolved earlier, when this server may have listened on another port. */
  currentUriOf(uri: string): string {
    const own = uri.includes("@") && this.#mayBeOwnHost(uri) ? parseOwnImage(uri) : null;
    if (own === null || typeof this.#registry === "string") return uri;
    return `${this.#ownHost()}/${repositoryPrefix(own.deploymentId)}${own.name}@${own.reference}`;
  }

  /** Returns the credential with which the engine pulls an image. Own images need no check: `resolve` has checked their tenant. */
  async credentialOf(uri: string): Promise<RegistryCredential | null> {
    const own = this.#isOwnHost(uri) ? parseOwnImage(uri) : null;
    if (own !== null && typeof this.#registry !== "string") return this.#registry.pullCredential(own.deploymentId);
    const { registryAuthFile: file } = this.#config;
    return file === undefined ? null : readRegistryCredential(file, uri);
  }

  /** Deletes pushed images that no retained revision uses. @returns the number of deleted images. */
  async removeUnneeded(signal: AbortSignal): Promise<number> {
    if (typeof this.#registry === "string") return 0;
    const needed = {
      deployments: (ids: string[]) => findKnownDeployments(this.#db, ids),
      digests: (digests: string[]) => findKnownDigests(this.#db, digests),
    };
    return this.#registry.sweep(needed, { signal });
  }

  async #resolveElsewhere(uri: string): Promise<ImageFound> {
    const { registryAuthFile = null, allowPrivateNetwork: allowsPrivateRegistries } = this.#config;
    const problem = await registryProblem(uri, { registryAuthFile, allowsPrivateRegistries });
    if (problem !== null) return { ok: false, message: `The image ${uri} is refused. ${problem}` };
    return { ok: true, ...(await pinImage(this.#config.dockerHost, uri, await this.credentialOf(uri))) };
  }

  #isOwnHost(uri: string): boolean {
    return uri.startsWith(`${this.#ownHost()}/`);
  }

  /** The engine keeps images under the names of their push or pull, including those of earlier ports and deleted deployments. */
  #mayBeOwnHost(uri: string): boolean {
    const [host = ""] = uri.split("/");
    const isHere = /^(localhost|127\.[\d.]+|\[::1\])(:\d+)?$/.test(host);
    return isHere || this.#isOwnHost(uri) || host === this.#config.registryHost;
  }

  #ownHost(): string {
    const url = this.#ownUrl();
    return url === "" ? `127.0.0.1:${this.#config.port}` : new URL(url).host;
  }
}
