import type { Parts } from '../../generic/resource.ts'
import { ClassFields } from './fields.tsx'
import { ClassForms, ClassLinks, ClassOwners, ClassSets, LabelField } from './panels.tsx'
import { RecordSets } from './record-sets.tsx'

export const parts: Parts = {
  inputs: { label_field: LabelField },
  panels: [ClassLinks, ClassFields, ClassForms, ClassSets, RecordSets, ClassOwners],
}
