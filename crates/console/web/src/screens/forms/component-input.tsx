// A custom component in a form: one that asks for a field, and one that only shows something.

import { lazy, Suspense, useContext } from 'react'
import type { Field, Json, Placed } from '../../api/shapes.ts'
import { maySeeComponents } from '../../generic/component-rights.ts'
import { ObjectionsContext } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { FieldInput } from '../../generic/input.tsx'
import { Fieldset } from '../../kit/fields.tsx'
import { useMessages } from '../../kit/messages.ts'
import { labelOf } from '../../texts.ts'

const ComponentFrame = lazy(() =>
  import('../../generic/component-frame.tsx').then(({ ComponentFrame: part }) => ({ default: part })),
)

export function ComponentInput({
  field,
  custom,
  name,
  value,
  onChange,
}: {
  field: Field
  custom: Placed
  name: string
  value: Json | undefined
  onChange: (value: Json) => void
}) {
  const object = useContext(ObjectionsContext)
  const message = useMessages(name)
  const plain = <FieldInput field={field} name={name} value={value} onChange={onChange} />
  if (!maySeeComponents()) return plain
  return (
    <Fieldset name={name} label={labelOf(field)} hint={field.description || undefined} isRequired={field.required}>
      <Suspense>
        <ComponentFrame
          {...custom}
          value={value ?? null}
          onValue={(now) => onChange(now as Json)}
          onErrors={(errors) => object(name, errors)}
          hidesErrors={message !== undefined}
          fallback={plain}
        />
      </Suspense>
    </Fieldset>
  )
}

/** Nothing that it says is kept. */
export function ShownComponent({ custom, label }: { custom: Placed; label: string | undefined }) {
  return (
    <div className={generic.section}>
      {label && <h3>{label}</h3>}
      <Suspense>
        <ComponentFrame {...custom} />
      </Suspense>
    </div>
  )
}
