import { type Static, Type } from "typebox";
import { literals, nullable, optional, timestamp } from "../schema.ts";

const patterns = (description: string) =>
  nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
      minItems: 1,
      maxItems: 100,
      examples: [["agents/**", "*.json"]],
    }),
    description,
  );

export const PreviewTrigger = literals(["all", "label"]);

const trigger = literals(PreviewTrigger.enum, { description: "all: every pull request. label: those with the label." });
const label = Type.String({ minLength: 1, maxLength: 128, examples: ["preview"] });
const idleTtlHours = Type.Integer({
  minimum: 1,
  maximum: 8_760,
  description: "Hours without a commit or a request after which a preview is deleted.",
});
const previewsMax = Type.Integer({
  minimum: 1,
  maximum: 100,
  description: "Maximum number of previews at the same time.",
});

/** Deployments of pull requests (contract 10.2). */
export const PreviewSettings = Type.Object(
  { enabled: Type.Boolean(), trigger, label, idle_ttl_hours: idleTtlHours, max_previews: previewsMax },
  { $id: "PreviewSettings" },
);
export type PreviewSettings = Static<typeof PreviewSettings>;

export const previewDefaults: PreviewSettings = {
  enabled: true,
  trigger: "all",
  label: "preview",
  idle_ttl_hours: 72,
  max_previews: 5,
};

/** Fields that are left out keep their value. Their first values are those of `previewDefaults`. */
export const PreviewSettingsInput = Type.Object(
  {
    enabled: optional(Type.Boolean()),
    trigger: optional(trigger, "Default all."),
    label: optional(label, "Default preview."),
    idle_ttl_hours: optional(idleTtlHours, "Default 72."),
    max_previews: optional(previewsMax, "Default 5."),
  },
  { $id: "PreviewSettingsInput" },
);

/** Last observed state of the followed branch. */
export const FollowedBranch = Type.Object(
  {
    ref: Type.String({ examples: ["main"] }),
    commit_sha: nullable(Type.String(), "null: the branch did not exist."),
    polled_at: timestamp(),
    next_poll_at: timestamp("Time of the next poll at the latest. A webhook of the code host makes it earlier."),
    error: nullable(Type.String(), "Why the last poll, or the deployment that followed it, failed."),
  },
  { $id: "FollowedBranch" },
);
export type FollowedBranch = Static<typeof FollowedBranch>;

export const GitSettings = Type.Object(
  {
    include_paths: patterns(
      "Patterns as in .gitignore: only pushes that change a matching file build. null: all pushes build.",
    ),
    exclude_paths: patterns("Patterns of files to ignore, even if they match include_paths."),
    preview: nullable(PreviewSettings, "null: pull requests are ignored."),
    followed: nullable(FollowedBranch, "null: no branch is followed, or it was not polled yet."),
  },
  { $id: "GitSettings", description: "How a deployment reacts to pushes and pull requests." },
);
export type GitSettings = Static<typeof GitSettings>;

export const PatchGitSettings = Type.Object(
  {
    include_paths: Type.Optional(GitSettings.properties.include_paths),
    exclude_paths: Type.Optional(GitSettings.properties.exclude_paths),
    preview: optional(PreviewSettingsInput, "null disables previews and deletes the existing ones."),
  },
  { $id: "PatchGitSettings", examples: [{ include_paths: ["agents/support/**"] }] },
);
export type PatchGitSettings = Static<typeof PatchGitSettings>;
