import { AnswerTooLong, type Engine } from "../engine/engine.ts";

/** The used part of an image as `GET /images/{name}/json` returns it. */
export interface ImageDetails {
  Id: string;
  Size: number;
  /** Absent: a base image. */
  Parent?: string;
  Os: string;
  Architecture: string;
  RepoTags: string[] | null;
  RepoDigests: string[] | null;
  Config: { Env: string[] | null; Labels: Record<string, string> | null; OnBuild: string[] | null } | null;
  Metadata?: { LastTagTime?: string };
}

/**
 * Limit of what the engine says about one image. Its labels and variables come from a user and have no limit in the engine, which repeats
 * the labels in every list of containers.
 */
const detailsBytesMax = 512 * 1024;

/** An image that nothing here can use, because of the size of its labels and variables. */
export class ImageTooLarge extends Error {
  override name = "ImageTooLarge";
}

/**
 * Returns what the engine says about an image; undefined: the engine does not have it.
 * @param image name or id
 * @throws ImageTooLarge; otherwise as `Engine.call`
 */
export async function inspectImage(engine: Engine, image: string): Promise<ImageDetails | undefined> {
  const path = `/images/${encodeURIComponent(image)}/json`;
  try {
    return await engine.callUnless<ImageDetails>([404], "GET", path, { answerBytesMax: detailsBytesMax });
  } catch (error) {
    if (!(error instanceof AnswerTooLong)) throw error;
    const text = `the image has more than ${detailsBytesMax / 1024} KiB of labels and variables`;
    throw new ImageTooLarge(text, { cause: error });
  }
}
