import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Deployment } from "../parts/words.ts";

/** The head of a card: its title, and at most one link or count. */
export function CardHead({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="card-head">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A link to a part of the deployment's page. */
export function PartLink({ deployment, part, text }: { deployment: Deployment; part: string; text: string }) {
  return (
    <Link
      to="/o/$tenantId/host/deployments/$id/$part"
      params={{ tenantId: deployment.tenant_id, id: deployment.id, part }}
      className="button quiet small"
    >
      {text}
    </Link>
  );
}
