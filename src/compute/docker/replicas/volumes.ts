import type { Engine } from "../engine/engine.ts";

/** A volume of a container: the one of its state, or one that its image declares (`VOLUME`), which no setting can prevent. */
export interface MountedVolume {
  name: string;
  /** Path in the container. */
  target: string;
}

/** Returns the volumes among the mounts of `GET /containers/{id}/json`. */
export function volumesOf(mounts: { Type: string; Name?: string; Destination: string }[] = []): MountedVolume[] {
  return mounts.flatMap(({ Type, Name, Destination }) =>
    Type === "volume" && Name !== undefined ? [{ name: Name, target: Destination }] : [],
  );
}

const timeoutMs = 600_000;

/** Returns the sizes of all volumes of an engine, by name. The engine walks over their files, and older ones also add up images. */
export async function volumeSizes(engine: Engine, signal?: AbortSignal): Promise<Map<string, number>> {
  const { Volumes } = await engine.call<{ Volumes: { Name: string; UsageData?: { Size: number } }[] | null }>(
    "GET",
    "/system/df",
    { query: { type: "volume" }, timeoutMs, ...(signal && { signal }) },
  );
  return new Map((Volumes ?? []).map(({ Name, UsageData }) => [Name, UsageData?.Size ?? 0]));
}

/** Returns the total size of volumes; -1 when the engine cannot measure one. */
export async function volumeBytes(engine: Engine, volumes: MountedVolume[]): Promise<number> {
  const sizes = await volumeSizes(engine);
  const bytes = volumes.map(({ name }) => sizes.get(name) ?? 0);
  return bytes.includes(-1) ? -1 : bytes.reduce((sum, size) => sum + size, 0);
}
