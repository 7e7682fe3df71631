import { Link } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import type { ReactNode } from "react";

/** Says that an address leads nowhere, why that may be, and offers the list. */
export function NotFound({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="card blank">
      <Compass size={22} className="blank-icon" />
      <h1>{title}</h1>
      <p>{children}</p>
      <Link to="/host/deployments" className="button">
        All deployments
      </Link>
    </section>
  );
}
