import type { Message } from "./types.ts";

/** A file that goes with a message, in the form that LangChain's models read. */
export interface Attachment {
  name: string;
  part: Record<string, unknown>;
}

/** Larger messages are refused by most models, and each run stores them again. */
export const attachedBytesMax = 4 * 1_024 * 1_024;

const textNames =
  /\.(txt|md|csv|tsv|json|jsonl|ya?ml|toml|xml|html?|css|[cm]?[jt]sx?|py|rb|go|rs|java|sh|sql|log|env)$/i;
const isText = ({ name, type }: File) =>
  type.startsWith("text/") || type === "application/json" || textNames.test(name);

/** Reads a file. Texts become part of the message, images and other files are sent as they are, in base64. */
export async function attachmentOf(file: File): Promise<Attachment> {
  const { name, type } = file;
  if (isText(file)) return { name, part: { type: "text", text: `${name}:\n\n${await file.text()}` } };
  const url = await dataUrlOf(file);
  if (type.startsWith("image/")) return { name, part: { type: "image_url", image_url: { url } } };
  const [, data = ""] = url.split(",", 2);
  const mime_type = type === "" ? "application/octet-stream" : type;
  return { name, part: { type: "file", source_type: "base64", mime_type, data, metadata: { filename: name } } };
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
}

/** Returns the content of a message: its text alone, or its text and files as parts. */
export function contentOf(text: string, files: readonly Attachment[]): unknown {
  if (files.length === 0) return text;
  return [...(text.trim() === "" ? [] : [{ type: "text", text }]), ...files.map(({ part }) => part)];
}

/** A file in a message. `url`: an image that the page can show without calling another host. */
export interface ShownFile {
  name: string;
  url: string | null;
}

/** Returns the images and files of a message, in any of LangChain's forms. */
export function filesIn({ content }: Message): ShownFile[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown): ShownFile[] => {
    if (typeof part !== "object" || part === null) return [];
    const { type, image_url: image, data, metadata } = part as Record<string, unknown>;
    const mime = (part as { mime_type?: unknown }).mime_type ?? (part as { mimeType?: unknown }).mimeType;
    const name = (metadata as { filename?: unknown } | null | undefined)?.filename;
    if (type === "image_url") return [shownImage((image as { url?: unknown } | null)?.url ?? image)];
    if (type === "image" && typeof data === "string") return [shownImage(`data:${String(mime)};base64,${data}`)];
    if (type === "image") return [{ name: "image", url: null }];
    if (type === "file")
      return [{ name: typeof name === "string" ? name : `file (${String(mime ?? "?")})`, url: null }];
    return [];
  });
}

const dataImage = /^data:image\/(png|jpe?g|gif|webp|avif);base64,[A-Za-z0-9+/=]+$/;

const shownImage = (url: unknown): ShownFile => ({
  name: "image",
  url: typeof url === "string" && dataImage.test(url) ? url : null,
});
