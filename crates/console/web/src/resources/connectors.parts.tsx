import type { Json } from '../api/shapes.ts'
import { FieldInput } from '../generic/input.tsx'
import type { InputProps, Parts } from '../generic/resource.ts'
import { Copyable } from '../kit/copyable.tsx'

/** Integrations of the type of agents. */
function Integration({ field, name, value, onChange }: InputProps) {
  return (
    <FieldInput
      field={{ ...field, type: 'relation', autocomplete: '/api/integrations/?type=ai_mcp' }}
      name={name}
      value={value}
      onChange={onChange}
    />
  )
}

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

export const parts: Parts = { inputs: { integration: Integration }, views: { server_url: Address, client_id: Address } }
