import { type Static, Type } from "typebox";
import { timestamp, uuid } from "../schema.ts";

const objectPathExample = "uploads/6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11/0d9c8b7a-6f5e-4d3c-8b2a-19087f6e5d4c.tar.gz";

/** Result of D11: where to PUT a source archive, and its path for `source_tarball_path`. */
export const UploadUrl = Type.Object(
  {
    upload_url: Type.String({
      description: "Absolute signed URL. It accepts one PUT of a gzip tar and needs no API key.",
      examples: [
        "http://127.0.0.1:8124/uploads/0d9c8b7a-6f5e-4d3c-8b2a-19087f6e5d4c?expires_at=2026-11-20T10:30:00.000000Z&signature=uK3",
      ],
    }),
    object_path: Type.String({
      description: "Value for source_revision_config.source_tarball_path.",
      examples: [objectPathExample],
    }),
  },
  { $id: "UploadUrl" },
);
export type UploadUrl = Static<typeof UploadUrl>;

export const UploadPath = Type.Object({ upload_id: uuid("Upload that the URL was created for.") });
export type UploadPath = Static<typeof UploadPath>;

/** Query of the signed URL. */
export const UploadQuery = Type.Object({
  expires_at: timestamp("The URL is refused after this time."),
  signature: Type.String({ minLength: 1, description: "The server's signature of the URL.", examples: ["uK3"] }),
});
export type UploadQuery = Static<typeof UploadQuery>;

export const UploadReceipt = Type.Object(
  {
    object_path: Type.String({ examples: [objectPathExample] }),
    size_bytes: Type.Integer({ examples: [48_213] }),
    sha256: Type.String({
      description: "Hexadecimal digest of the archive.",
      examples: ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    }),
  },
  { $id: "UploadReceipt" },
);
export type UploadReceipt = Static<typeof UploadReceipt>;
