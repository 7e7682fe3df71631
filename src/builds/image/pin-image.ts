import { Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import {
  authHeader,
  type ImageDetails,
  keepsState,
  type RegistryCredential,
} from "../../compute/docker/images/images.ts";

/** An image that never means another one. */
export interface PinnedImage {
  uri: string;
  /** Of its manifest, or of an image that no registry has, its id in the engine; the uri when neither is known. */
  digest: string;
  /** @see keepsState; false also when that is not known before it is pulled. */
  keepsState: boolean;
}

/** A registry that does not answer within this is left to the pull, which has more patience. */
const registryTimeoutMs = 15_000;

/**
 * Finds out what a name means now, so that every replica of a revision runs the same image, whatever is pushed later.
 * An image that was built on this machine and pushed nowhere is pinned by its id. What cannot be found out is left as it
 * is: the start of the replicas will say why.
 */
export async function pinImage(host: string, uri: string, credential: RegistryCredential | null): Promise<PinnedImage> {
  const [, given] = uri.split("@");
  if (given !== undefined) return { uri, digest: given, keepsState: false };
  const engine = await new Engine(host).open();
  try {
    const local = await engine.callUnless<ImageDetails>([404], "GET", `/images/${encodeURIComponent(uri)}/json`);
    const name = uri.replace(/:[^:/]+$/, "");
    const isExclusive = keepsState(local?.Config?.Labels);
    if (local !== undefined && (local.RepoDigests ?? []).length === 0)
      return { uri, digest: local.Id, keepsState: isExclusive };
    const digest = (await askRegistry(engine, uri, credential)) ?? digestOf(local, name);
    const pinned = digest === undefined ? { uri, digest: uri } : { uri: `${name}@${digest}`, digest };
    return { ...pinned, keepsState: isExclusive };
  } finally {
    engine.close();
  }
}

async function askRegistry(engine: Engine, uri: string, credential: RegistryCredential | null) {
  try {
    const found = await engine.call<{ Descriptor: { digest: string } }>(
      "GET",
      `/distribution/${encodeURIComponent(uri)}/json`,
      { headers: authHeader(uri, credential), timeoutMs: registryTimeoutMs },
    );
    return found.Descriptor.digest;
  } catch (error) {
    if (error instanceof EngineError || (error as Error).name === "TimeoutError") return undefined;
    throw error;
  }
}

const digestOf = (image: ImageDetails | undefined, name: string) =>
  image?.RepoDigests?.find((one) => one.startsWith(`${name}@`))?.split("@")[1];
