// What an operator looks at first.
param location string
param tags object
param workspaceId string

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = {
  name: guid(resourceGroup().id, 'oneeffect')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    displayName: 'oneeffect'
    category: 'workbook'
    sourceId: workspaceId
    version: '1.0'
    serializedData: loadTextContent('../workbook.json')
  }
}
