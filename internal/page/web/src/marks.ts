// What the audit trail says about the versions that came into force.
import type { Change } from "./api";

/** publishedBy returns the number of the version that a change published; 0 if it published none. */
export function publishedBy(c: Pick<Change, "action" | "detail">): number {
  return c.action === "publish" ? Number(/^version (\d+)/.exec(c.detail)?.[1] ?? 0) : 0;
}
