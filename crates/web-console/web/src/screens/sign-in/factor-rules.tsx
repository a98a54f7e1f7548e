// The rules for second factors by account type, edited in place.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { instance as instanceQuery, options } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Options } from '../../api/shapes.ts'
import { Facts } from '../../generic/detail.tsx'
import { Edit } from '../../generic/edit.tsx'
import { Reading } from '../../generic/failure.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { mayHaveFactors, ownFactors } from '../../shared/second-factors/own-factors.ts'
import { labelOf, t } from '../../texts.ts'

const PATH = '/api/security/second-factors/'
const SECTIONS = [
  {
    title: 'factors.rules' as const,
    fields: ['internal', 'external', 'full', 'super_admin'],
    hint: 'factors.rules.hint' as const,
  },
]

/** The rule of an account type. A changed rule names its consequences below. */
function RuleInput({ field, name, value, onChange, instance }: InputProps) {
  const isChanged = instance !== undefined && instance[name] !== value
  return (
    <>
      <Select
        name={name}
        label={labelOf(field)}
        isRequired
        value={value as string}
        choices={field.values ?? []}
        onChange={onChange}
      />
      {isChanged && value !== 'optional' && <Consequence type={name} isRequired={value === 'required'} />}
    </>
  )
}
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

/** What a changed rule means for people, before it is saved. */
function Consequence({ type, isRequired }: { type: string; isRequired: boolean }) {
  const isOwn = isRequired && mayHaveFactors() && type === session()?.user?.account_type
  const own = useQuery({ ...ownFactors, enabled: isOwn })
  const notice = useRef<HTMLDivElement>(null)
  useEffect(() => notice.current?.scrollIntoView({ block: 'nearest' }), [])
  return (
    <div ref={notice} role="status" className={css.notice} data-tone="warn">
      <p>{t(isRequired ? 'factors.rules.required' : 'factors.rules.off')}</p>
      {own.data?.results.length === 0 && <p>{t('factors.rules.own')}</p>}
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
