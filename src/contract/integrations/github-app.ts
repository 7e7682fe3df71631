import { type Static, Type } from "typebox";
import { literals, nullable, optional, timestamp } from "../schema.ts";

/** Request for a link at which GitHub creates the App of this server (contract 10.1). */
export const CreateGithubAppLink = Type.Object(
  {
    github_url: optional(
      Type.String({ minLength: 1, maxLength: 2_048, examples: ["https://github.example.org"] }),
      "Address of GitHub or of an Enterprise Server. Default: PIERHEAD_GITHUB_URL.",
    ),
    organization: optional(
      Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", examples: ["acme"] }),
      "GitHub organization that will own the App. Default: the account of the user who opens the link.",
    ),
    name: optional(
      Type.String({ minLength: 1, maxLength: 34, examples: ["Pierhead of Acme"] }),
      "Must be unique at GitHub, and can be changed on GitHub's page. Default: derived from this server's address.",
    ),
    public: optional(
      Type.Boolean(),
      "Whether accounts other than the App's owner may install it. Default: only in cloud mode.",
    ),
  },
  { $id: "CreateGithubAppLink" },
);

export const GithubAppLink = Type.Object(
  {
    create_url: Type.String({
      description: "Page of this server that leads to GitHub. Open it in a browser. It works once.",
      examples: ["https://pierhead.example.org/v2/auth/github-app?state=Zk3v"],
    }),
    expires_at: timestamp(),
  },
  { $id: "GithubAppLink" },
);

export const ServerGithubApp = Type.Object(
  {
    app_id: Type.String({ examples: ["1337"] }),
    source: literals(["configuration", "manifest"], { description: "Where the App's settings come from." }),
    github_url: Type.String({ examples: ["https://github.com"] }),
    name: nullable(
      Type.String({ examples: ["Pierhead of Acme"] }),
      "null: unknown, because the App is set in the configuration.",
    ),
    page_url: nullable(Type.String({ examples: ["https://github.com/apps/pierhead-of-acme"] })),
    hears_pushes: Type.Boolean({
      description: "true: GitHub reports pushes by webhook. false: the server polls the branches every few minutes.",
    }),
    proves_owners: Type.Boolean({
      description: "The server accepts an installation only from a user who has access to it.",
    }),
    created_at: nullable(timestamp()),
  },
  { $id: "ServerGithubApp", description: "The GitHub App of this server. Its secrets are never shown." },
);
export type ServerGithubApp = Static<typeof ServerGithubApp>;

const state = Type.Optional(Type.String({ maxLength: 512, description: "Identifies the link that led here." }));

export const GithubAppFormQuery = Type.Object({ state });

/** Parameters that GitHub sends through the browser after it has created an App. */
export const GithubAppMadeQuery = Type.Object({
  state,
  code: Type.Optional(Type.String({ maxLength: 512, description: "Can be exchanged once for the App's secrets." })),
});
