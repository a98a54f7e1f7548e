// The files of a record, by the labels of a record that was made flat.

import type { Instance, Json } from '../../api/shapes.ts'
import look from '../../generic/files.module.css'
import { FileLine } from '../../generic/files.tsx'
import generic from '../../generic/generic.module.css'
import type { InputProps } from '../../generic/resource.ts'
import { RecordInput } from '../../shared/forms/record-input.tsx'
import { filesOf } from '../../shared/records/shape.ts'
import { t } from '../../texts.ts'

export function Files({ value, instance }: { value: Json; instance: Instance }) {
  const storedFiles = filesOf(instance)
  const ids = Array.isArray(value) ? value : []
  if (ids.length === 0) return <span className={generic.none}>{t('none')}</span>
  return (
    <ul className={look.files}>
      {ids.map((id) => {
        const file = storedFiles[`${id}`]
        return <li key={`${id}`}>{file ? <FileLine file={file} /> : `${id}`}</li>
      })}
    </ul>
  )
}

export const FileInput = ({ instance, ...props }: InputProps) => (
  <RecordInput {...props} {...(instance && { files: filesOf(instance) })} />
)
