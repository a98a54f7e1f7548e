// A date, or a date and time in a named time zone. The picker is fetched when the first of them is shown.

import { t } from '../texts.ts'
import css from './controls.module.css'
import look from './date-field.module.css'
import type { FieldProps } from './fields.tsx'
import { part } from './part.tsx'

export interface DateProps extends FieldProps {
  /** A day in ISO 8601, or a date and time in UTC; empty without a value. */
  value: string
  onChange: (value: string | null) => void
  /** True for a date with a time. */
  hasTime?: boolean
  /** The time zone of the shown times and of today. */
  zone: string
  isReadOnly?: boolean | undefined
}

/** The hint below the field. */
export const hintOf = ({ hint, hasTime, zone }: DateProps) =>
  hasTime ? [hint, t('in-zone', { zone })].filter(Boolean).join(' · ') : hint

/** Has the size of the picker. */
function Empty(props: DateProps) {
  const hint = hintOf(props)
  return (
    <div className={css.field} data-field={props.name}>
      <span className={css.label}>
        {props.label}
        {!props.isRequired && <span className={css.optional}>{` ${t('optional')}`}</span>}
      </span>
      <span className={`${css.input} ${look.group}`} />
      {hint && <span className={css.hint}>{hint}</span>}
    </div>
  )
}

export const DateField = part(() => import('./date-picker.tsx').then(({ Picker }) => Picker), Empty)
