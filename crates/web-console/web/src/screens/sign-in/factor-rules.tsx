// The rules for second factors by account type, edited in place.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { instance as instanceQuery, options } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Fields, Options } from '../../api/shapes.ts'
import { isEqual } from '../../generic/changes.ts'
import { Facts } from '../../generic/detail.tsx'
import { Edit } from '../../generic/edit.tsx'
import { Reading } from '../../generic/failure.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { mayHaveFactors, ownFactors } from '../../shared/second-factors/own-factors.ts'
import { labelOf, named, t } from '../../texts.ts'

const PATH = '/api/security/second-factors/'
const SECTIONS = [
  {
    title: 'factors.rules' as const,
    fields: ['internal', 'external', 'full', 'super_admin'],
    hint: 'factors.rules.hint' as const,
  },
]

const RuleInput = ({ field, name, value, onChange }: InputProps) => (
  <Select
    name={name}
    label={labelOf(field)}
    isRequired
    value={value as string}
    choices={field.values ?? []}
    onChange={onChange}
  />
)
const INPUTS = { internal: RuleInput, external: RuleInput, full: RuleInput, super_admin: RuleInput }

/** Every type has a rule. Only super admins change their own. */
function chosen(details: Options['details']): Options['details'] {
  const isSuper = ['super_admin', 'service_internal'].includes(`${session()?.user?.account_type}`)
  const schema = details.schema.map((field) => ({
    ...field,
    required: true,
    ...(field.alias === 'super_admin' && !isSuper && { editable: false }),
  }))
  return { ...details, schema }
}

/** What the changed rules mean for people, before they are saved. */
function Consequences({ before, values }: { before: Fields; values: Fields }) {
  const changed = Object.keys(values).filter((type) => !isEqual(before[type] ?? null, values[type] ?? null))
  const namesOf = (rule: string) => changed.filter((type) => values[type] === rule).map((type) => named('field', type))
  const isOwn = mayHaveFactors() && changed.includes(`${session()?.user?.account_type}`)
  const own = useQuery({ ...ownFactors, enabled: isOwn })
  const required = namesOf('required')
  const off = namesOf('off')
  const isDueForMe =
    isOwn && values[`${session()?.user?.account_type}`] === 'required' && own.data?.results.length === 0
  const texts = [
    ...(required.length > 0 ? [t('factors.rules.required', { names: required.join(', ') })] : []),
    ...(isDueForMe ? [t('factors.rules.own')] : []),
    ...(off.length > 0 ? [t('factors.rules.off', { names: off.join(', ') })] : []),
  ]
  return (
    <div role="status">
      {texts.length > 0 && (
        <div className={css.notice} data-tone="warn">
          {texts.map((text) => (
            <p key={text}>{text}</p>
          ))}
        </div>
      )}
    </div>
  )
}

export function FactorRules() {
  const described = useQuery(options(PATH))
  const read = useQuery(instanceQuery(PATH))
  const [isEditing, setIsEditing] = useState(false)
  if (!described.data || !read.data) return <Reading of={[described, read]} />
  const details = chosen(described.data.details)
  if (isEditing)
    return (
      <Edit
        path={PATH}
        list={PATH}
        sections={SECTIONS}
        inputs={INPUTS}
        read={read.data}
        details={details}
        warning={(before, values) => <Consequences before={before} values={values} />}
        onDone={() => setIsEditing(false)}
      />
    )
  return (
    <>
      <Facts sections={SECTIONS} instance={read.data.instance} fields={details.schema} />
      {session()?.permissions?.standard_authentication?.edit === true && (
        <div>
          <Button icon="pencil" onPress={() => setIsEditing(true)}>
            {t('factors.rules.edit')}
          </Button>
        </div>
      )}
    </>
  )
}
