import { parseImageReference } from "../../domain/image-reference.ts";
import { usageFailure } from "../failure.ts";

/** Returns the last part of the name of an image, and its tag: `latest` if it names none. @throws CliFailure for another text. */
export function nameOfImage(image: string): { name: string; tag: string } {
  const found = parseImageReference(image);
  if (found === null) throw usageFailure(`"${image}" is not an image.`, "An image looks like ghcr.io/acme/support:1.4");
  return { name: found.repository.split("/").at(-1) ?? "", tag: found.tag ?? "latest" };
}
