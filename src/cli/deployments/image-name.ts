/** Returns the last part of the name of an image, and its tag: `latest` if it names none. */
export function parseImage(image: string): { repository: string; tag: string } {
  const [path = ""] = image.split("@");
  const [repository = "", tag = "latest"] = (path.split("/").at(-1) ?? "").split(":");
  return { repository, tag };
}
