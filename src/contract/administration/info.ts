import { type Static, Type } from "typebox";
import { SourceKind } from "../deployments/deployment.ts";
import { literals, nullable } from "../schema.ts";

export const Mode = literals(["standalone", "cloud", "self_hosted"]);
export type Mode = Static<typeof Mode>;

export const Ok = Type.Object({ ok: Type.Boolean({ examples: [true] }) }, { $id: "Ok" });
export type Ok = Static<typeof Ok>;

/** `GET /ready`: 200 when migrations are done and the loops run, 503 otherwise. */
export const Readiness = Type.Object(
  {
    ready: Type.Boolean({ examples: [true] }),
    waiting_for: Type.Array(Type.String(), { description: "What is still missing; [] when ready.", examples: [[]] }),
  },
  { $id: "Readiness" },
);
export type Readiness = Static<typeof Readiness>;

export const Region = Type.Object(
  { name: Type.String(), url: Type.String({ description: "API base of that region." }) },
  { $id: "Region" },
);
export type Region = Static<typeof Region>;

/** `GET /info`: which kind of installation this is. */
export const Info = Type.Object(
  {
    version: Type.String({ description: "Version of Pierhead." }),
    mode: Mode,
    region: Type.String({ description: "The region that answered." }),
    regions: Type.Array(Region),
    sources: Type.Array(SourceKind, { description: "Sources a deployment can be created from here." }),
    sign_in: nullable(
      Type.Object({
        name: Type.String({ description: "What the identity provider is called.", examples: ["Example ID"] }),
        url: Type.String({
          description: "Where a browser begins.",
          examples: ["https://pierhead.example.org/v2/session/oidc"],
        }),
      }),
      "How people sign in to the console; null: with API keys alone.",
    ),
  },
  {
    $id: "Info",
    examples: [
      {
        version: "0.1.0",
        mode: "standalone",
        region: "local",
        regions: [{ name: "local", url: "http://127.0.0.1:8124" }],
        sources: SourceKind.enum,
        sign_in: null,
      },
    ],
  },
);
export type Info = Static<typeof Info>;
