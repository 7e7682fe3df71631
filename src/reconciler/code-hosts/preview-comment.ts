import type { PreviewStage } from "../../domain/commit-report.ts";

const words: Record<PreviewStage | "deleted", string> = {
  building: "is being built",
  ready: "is ready",
  failed: "could not be deployed",
  deleted: "was deleted",
};

/** Returns the comment on a pull request about its preview, in Markdown. There is one comment, which is edited later. */
export function previewComment(preview: {
  name: string;
  stage: PreviewStage | "deleted";
  headSha: string;
  url: string;
  link: string;
}): string {
  const { name, stage, headSha, url, link } = preview;
  const address = stage === "ready" ? `\n\n**Address:** ${url}` : "";
  const details = stage === "deleted" ? "" : ` · [Details](${link})`;
  return `Preview \`${name}\` ${words[stage]} (commit ${headSha.slice(0, 12)}).${address}${details}\n`;
}
