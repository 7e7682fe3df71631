import { optional, text } from "./setting.ts";

/** The GitHub App that reads private repositories. */
export const githubSettings = {
  githubUrl: text("PIERHEAD_GITHUB_URL", "https://github.com", "GitHub or GitHub Enterprise Server of the GitHub App."),
  githubAppId: optional("PIERHEAD_GITHUB_APP_ID", "none", "Id of the GitHub App that reads private repositories."),
  githubPrivateKey: optional(
    "PIERHEAD_GITHUB_PRIVATE_KEY",
    "none",
    "Private key of that App: PEM (`\\n` may stand for a line break) or base64 of the PEM.",
  ),
  githubPrivateKeyFile: optional("PIERHEAD_GITHUB_PRIVATE_KEY_FILE", "none", "File with the private key of that App."),
  githubWebhookSecret: optional(
    "PIERHEAD_GITHUB_WEBHOOK_SECRET",
    "none",
    "Secret that signs the webhooks of that App.",
  ),
  githubClientId: optional(
    "PIERHEAD_GITHUB_CLIENT_ID",
    "none",
    "Client id of that App. With it, only users with access to an installation can claim it.",
  ),
  githubClientSecret: optional("PIERHEAD_GITHUB_CLIENT_SECRET", "none", "Client secret of that App."),
};
