import { Engine, EngineError } from "../../compute/docker/engine/engine.ts";
import { authHeader, keepsState, type RegistryCredential } from "../../compute/docker/images/images.ts";
import { type ImageDetails, ImageTooLarge, inspectImage } from "../../compute/docker/images/inspect-image.ts";

/** An image reference that always means the same image. */
export interface PinnedImage {
  uri: string;
  /** Digest of its manifest, or its id in the engine if no registry has it; the uri when neither is known. */
  digest: string;
  /** @see keepsState; false also when this is not known before the pull. */
  keepsState: boolean;
}

/** Time limit for the registry's response. The pull has a longer one, so it handles slower registries. */
const registryTimeoutMs = 15_000;

/**
 * Resolves the current meaning of an image name, so that every replica of a revision runs the same image even if the name
 * is pushed again. An image that was built on this machine and never pushed is pinned by its id. A name that cannot be
 * resolved stays as it is, and starting the replicas reports why.
 */
export async function pinImage(host: string, uri: string, credential: RegistryCredential | null): Promise<PinnedImage> {
  const [, given] = uri.split("@");
  if (given !== undefined) return { uri, digest: given, keepsState: false };
  const engine = await new Engine(host).open();
  try {
    const local = await inspectImage(engine, uri).catch((error: unknown) => {
      // The start of a replica refuses it, with the reason.
      if (error instanceof ImageTooLarge) return undefined;
      throw error;
    });
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
