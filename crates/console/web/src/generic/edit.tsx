// Edits one instance in place, beside others who do the same.

import { type ReactNode, useState } from 'react'
import { queries, type Read, wrote } from '../api/query.ts'
import { call, Refusal } from '../api/request.ts'
import type { Fields, Instance, Options } from '../api/shapes.ts'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { changed } from './changes.ts'
import { Conflict, useMerged } from './conflict.tsx'
import { editable, Form, fieldsFor } from './form.tsx'
import type { Inputs, Parts, Section, Shape } from './resource.ts'
import { sendFields } from './shape.ts'

export interface EditProps {
  path: string
  /** Where what is shown of it stands beside the instance itself. */
  list: string
  sections: Section[]
  hidden?: string[] | undefined
  inputs?: Inputs | undefined
  counts?: Parts['counts'] | undefined
  /** What is said above the buttons of what would be saved. */
  warning?: ((before: Fields, values: Fields) => ReactNode) | undefined
  shape?: Shape | undefined
  read: Read
  details: Options['details']
  onDone: () => void
}

export function Edit(props: EditProps) {
  const { path, list, sections, hidden, inputs, counts, warning, shape, read, details, onDone } = props
  const fields = (values: Fields) =>
    fieldsFor(details, values).filter(({ alias, editable: can }) => can !== false && !hidden?.includes(alias))
  const [base, setBase] = useState(read)
  const [first] = useState(() => editable(read.instance, fields(read.instance)))
  const { base: before, values, setValues, clashes, take, onSettled } = useMerged(first)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const now = { ...base.instance, ...values }
  const shown = fields(now).filter(({ alias }) => counts?.(alias, now) !== false)
  const groups = shown.filter(({ schema, type }) => type === 'object' && schema).map(({ alias }) => alias)
  const changes = changed(before, values, groups)
  const isChanged = Object.keys(changes).length > 0
  const save = async () => {
    if (!isChanged) return onDone()
    setIsBusy(true)
    try {
      const { data, etag } = await sendFields('PATCH', path, changes, shape, base.etag)
      queries.setQueryData([path, 'instance'], { instance: data, etag })
      void wrote(list, path)
      say(t('saved'))
      onDone()
    } catch (refused) {
      if (refused instanceof Refusal && refused.status === 412) {
        await theirs().catch(setError)
      } else setError(refused)
      setIsBusy(false)
    }
  }
  const theirs = async () => {
    const { data: now, etag } = await call<Instance>('GET', path)
    const data = shape ? shape.instance(now) : now
    setBase({ instance: data, etag })
    take(editable(data, fields(data)))
  }
  return (
    <>
      <Form
        fields={shown}
        sections={sections}
        values={values}
        instance={base.instance}
        inputs={inputs}
        error={error}
        isBusy={isBusy}
        isChanged={isChanged}
        submit={t('save')}
        onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
        onSubmit={() => void save()}
        onCancel={onDone}
      >
        {warning?.(before, values)}
      </Form>
      <Conflict clashes={clashes} fields={shown} onSettled={onSettled} />
    </>
  )
}
