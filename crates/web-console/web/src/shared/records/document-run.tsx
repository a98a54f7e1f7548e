// The run of a document template, and how it ended.

import type { Instance, Run } from '../../api/shapes.ts'
import { isReference, Moment, nameOf, Tag } from '../../kit/values.tsx'
import { t } from '../../texts.ts'

/** The latest run of a template for a record; null before the first. */
export const runOf = (template: Instance) => (template.generated_document ?? null) as unknown as Run | null

export function Outcome({ run }: { run: Run }) {
  return (
    <>
      <Tag value={run.status}>{t(`records.documents.${run.status}`)}</Tag>
      {run.error_message && <span>{run.error_message}</span>}
      {run.generated_at && <Moment value={run.generated_at} />}
      {isReference(run.generated_by) && <span>{nameOf(run.generated_by)}</span>}
    </>
  )
}
