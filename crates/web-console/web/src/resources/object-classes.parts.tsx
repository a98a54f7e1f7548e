import type { Parts } from '../generic/resource.ts'
import { ClassFields } from '../screens/classes/fields.tsx'
import { ClassForms, ClassLinks, ClassOwners, ClassSets, LabelField } from '../screens/classes/panels.tsx'
import { RecordSets } from '../screens/classes/record-sets.tsx'

export const parts: Parts = {
  inputs: { label_field: LabelField },
  panels: [ClassLinks, ClassFields, ClassForms, ClassSets, RecordSets, ClassOwners],
}
