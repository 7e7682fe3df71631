import { type Static, Type } from "typebox";
import { timestamp, uuid } from "./schema.ts";

/** D11: where to PUT a source archive, and the path to name in `source_tarball_path` afterwards. */
export const UploadUrl = Type.Object(
  {
    upload_url: Type.String({
      description: "Absolute URL with its own signature; takes one PUT of a gzip tar, no API key.",
    }),
    object_path: Type.String({ description: "Value for source_revision_config.source_tarball_path." }),
  },
  { $id: "UploadUrl" },
);
export type UploadUrl = Static<typeof UploadUrl>;

export const UploadPath = Type.Object({ upload_id: uuid() });
export type UploadPath = Static<typeof UploadPath>;

/** What the signed URL carries. */
export const UploadQuery = Type.Object({
  expires_at: timestamp("After this moment the URL is refused."),
  signature: Type.String({ minLength: 1 }),
});
export type UploadQuery = Static<typeof UploadQuery>;

export const UploadReceipt = Type.Object(
  { object_path: Type.String(), size_bytes: Type.Integer(), sha256: Type.String({ description: "Hex." }) },
  { $id: "UploadReceipt" },
);
export type UploadReceipt = Static<typeof UploadReceipt>;
