import assert from "node:assert/strict";
import { createPickerSession } from "../../src/store/code-hosts/picker-sessions.ts";
import { createOrganization, createWorkspace } from "../../src/store/tenants/tenants.ts";
import { eachDatabase } from "../support/database.ts";

eachDatabase(
  "the id of a picker session does not look like a command line option",
  async (db) => {
    const organizationId = await createOrganization(db, { name: "organization", plan: "cloud" });
    const tenantId = await createWorkspace(db, { organizationId, name: "workspace" });
    const link = { tenantId, organizationId, returnTo: null, createdAt: db.now(), actor: "key:1" };
    // One id of 64 started with a dash.
    const ids = await Promise.all(Array.from({ length: 500 }, () => createPickerSession(db, link, [])));
    assert.deepEqual(
      ids.filter((id) => !/^\w[\w-]{42}$/.test(id)),
      [],
    );
  },
  { kinds: ["embedded"] },
);
